"""Finds the leaves of a worker's state that a server stores once."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from gossipjax import async_exchange
from gossipjax.local_step import Worker


class Layout(NamedTuple):
  """Which leaves of a `Worker` are a server's, and the form of a `Worker`."""

  form: Any
  served: tuple[bool, ...]

  def part(self, leaves: Sequence[Any], served: bool) -> list[Any]:
    """The leaves of the server, or the others."""
    chosen = zip(leaves, self.served, strict=True)
    return [x for x, s in chosen if s == served]

  def joined(self, own: Sequence[Any], server: Sequence[Any]) -> Worker:
    """A `Worker` of its own leaves and the server's."""
    rest = {False: iter(own), True: iter(server)}
    leaves = [next(rest[s]) for s in self.served]
    return jax.tree.unflatten(self.form, leaves)


def layout_of(workers: Worker, kind: str) -> Layout:
  """The layout of workers that exchange in this way."""
  paths, form = jax.tree.flatten_with_path(workers)
  return Layout(form, tuple(_of_server(path, kind) for path, _ in paths))


def center_of(worker: Worker) -> list[Any]:
  """The leaves of the parameters that a server holds, in their order."""
  return [
    leaf
    for path, leaf in jax.tree.leaves_with_path(worker.parameters)
    if 'center' in _names(path)
  ]


def without_copies(workers: Worker, kind: str) -> Worker:
  """Workers, leaves [workers, ...], of which a server's leaves come once."""
  return jax.tree.map_with_path(
    lambda path, x: x[0] if _of_server(path, kind) else x, workers
  )


def _of_server(path, kind: str) -> bool:
  names = _names(path)
  visits = kind == async_exchange.VISIT
  of_server = 'center' in names or 'server' in names
  return visits and names[0] == 'parameters' and of_server


def _names(path) -> list[str | None]:
  return [getattr(key, 'name', None) for key in path]
