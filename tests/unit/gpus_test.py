"""Why JAX does not find a GPU, and the remedy."""

import os
import re
import subprocess
import sys
import types

import pytest

from gossipjax.distributed import gpus
from gossipjax.distributed.gpus import GpuStatus
from tests.support import program


@pytest.mark.parametrize(
  'machine, message',
  [
    (GpuStatus(12.4, 1, (12,), ''), ''),
    (GpuStatus(None, 0, (12,), 'no'), 'no NVIDIA driver .*install one'),
    (GpuStatus(12.4, 0, (12,), 'no'), 'shows no GPU; check `nvidia-smi`'),
    (GpuStatus(13.0, 8, (), 'no'), 'without CUDA; `pip install .*CUDA 12'),
    (GpuStatus(11.4, 8, (), 'no'), r'CUDA 11.4.*driver 525 or newer\.$'),
    (
      GpuStatus(11.4, 1, (12,), 'no'),
      r'CUDA 11.4.*driver 525 or newer\.$',
    ),
    (
      GpuStatus(12.8, 1, (13,), 'no'),
      r"driver 580 .*pip install 'jax\[cuda12\]'",
    ),
    (GpuStatus(13.0, 1, (13,), 'cuInit: 999'), 'JAX finds no GPU: cuInit: 999'),
  ],
)
def test_the_message_about_a_missing_gpu_fits_the_machine(machine, message):
  found = gpus.explanation(machine)
  if not message:
    assert found == ''
  else:
    assert re.search(message, found), found


@pytest.mark.exhaustive
@pytest.mark.skipif(bool(gpus._wheels()), reason='JAX has its wheels for CUDA.')
def test_a_failing_gpu_is_explained_even_without_jax_platforms(
  monkeypatch,
):
  config = types.SimpleNamespace(jax_platforms=None)
  monkeypatch.setattr(gpus, 'jax', types.SimpleNamespace(config=config))
  why = "Unable to initialize backend 'cuda': invalid device ordinal"
  found = GpuStatus(12.4, 1, (12,), why)
  monkeypatch.setattr(gpus, 'gpu_status', lambda: found)
  with pytest.raises(RuntimeError) as caught:
    raise RuntimeError(why)
  assert gpus.of_error(caught.value) == f'JAX finds no GPU: {why}'


@pytest.mark.parametrize(
  'platform, message',
  [
    ('cuda', r'no NVIDIA driver|shows no GPU|without CUDA'),
    ('gpu', r'no NVIDIA driver|shows no GPU|without CUDA'),
    ('abacus', 'lacks the platforms in JAX_PLATFORMS=abacus'),
  ],
)
def test_a_missing_platform_ends_with_an_error_message_of_one_line(
  platform, message, tmp_path
):
  machine = gpus.gpu_status()
  if platform != 'abacus' and machine.devices and machine.wheels:
    pytest.skip('JAX has a GPU on this machine.')
  words = '-m gossipjax run --config=configs/default.py --config.steps=1'
  ended = subprocess.run(
    [sys.executable, *words.split(), f'--workdir={tmp_path / "run"}'],
    cwd=program.ROOT,
    env=os.environ | program.ENVIRONMENT | {'JAX_PLATFORMS': platform},
    capture_output=True,
    text=True,
  )
  assert ended.returncode == 2
  assert re.search(message, ended.stderr) and ended.stderr.count('\n') == 1
