"""Eight GPUs to compile for, none of which has to be present.

JAX compiles ahead of time for a topology of GPUs that h100.pbtxt describes
(`target_config` of `get_topology_desc`); it needs its CUDA wheels, but neither
a GPU nor a driver. Without a GPU there is no autotuning, which affects matrix
products but not collectives. Checked with jax 0.10.2.
"""

import pathlib

import jax
from jax.experimental import topologies

from gossipjax.errors import UserError

NUM_GPUS = 8
TARGET = pathlib.Path(__file__).with_name('h100.pbtxt')


def devices(small: bool) -> list[jax.Device]:
  """Returns eight devices: emulated on the CPU if `small`, else described GPUs.

  Raises:
    UserError: JAX is installed without CUDA.
  """
  if small:
    return jax.devices()[:NUM_GPUS]
  try:
    found = topologies.get_topology_desc(
      platform='cuda',
      topology=f'1x1x{NUM_GPUS}',
      target_config=TARGET.read_text(),
    )
  except NotImplementedError as error:
    raise UserError(
      'compiled needs JAX with CUDA, though no GPU: `pip install -r '
      'requirements.txt`.'
    ) from error
  return found.devices
