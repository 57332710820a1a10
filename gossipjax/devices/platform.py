"""The platform that programs are traced for.

It is the one that JAX computes on, unless a program is compiled ahead of time
for devices that this machine lacks.
"""

import contextlib
import contextvars
from collections.abc import Iterator

import jax

_chosen: contextvars.ContextVar[str] = contextvars.ContextVar(
  'platform', default=''
)


def platform() -> str:
  """'cpu', 'gpu' or 'tpu': where the program that is traced will run."""
  return _chosen.get() or jax.default_backend()


@contextlib.contextmanager
def traced_for(name: str) -> Iterator[None]:
  """Programs are traced for another platform inside of this.

  JAX's caches are cleared at both ends, since they keep what was traced of the
  functions that it is called with, whatever the platform.

  Args:
    name: of the platform, as `platform` returns it, or 'cuda' or 'rocm'.
  """
  jax.clear_caches()
  token = _chosen.set({'cuda': 'gpu', 'rocm': 'gpu'}.get(name, name))
  try:
    yield
  finally:
    _chosen.reset(token)
    jax.clear_caches()
