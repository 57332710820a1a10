"""Finds the leaves of a worker's state that a server stores once."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from gossipjax import async_exchange
from gossipjax.aggregator import Tree
from gossipjax.local_step import Worker

Path = tuple[Any, ...]  # Of keys, as in jax.tree_util.
Paths = set[Path]


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
  model = paths_of(workers.params)
  return Layout(form, tuple(_of_server(path, model, kind) for path, _ in paths))


def center_of(worker: Worker) -> list[Any]:
  """The leaves of the parameters that a server holds, in their order."""
  model = paths_of(worker.params)
  return [
    leaf
    for path, leaf in jax.tree.leaves_with_path(worker.parameters)
    if 'center' in fields(path, model)
  ]


def without_copies(workers: Worker, kind: str) -> Worker:
  """Workers, leaves [workers, ...], of which a server's leaves come once."""
  model = paths_of(workers.params)
  return jax.tree.map_with_path(
    lambda path, x: x[0] if _of_server(path, model, kind) else x, workers
  )


def _of_server(path: Path, model: Paths, kind: str) -> bool:
  names = fields(path, model)
  visits = kind == async_exchange.VISIT
  of_server = 'center' in names or 'server' in names
  return visits and names[0] == 'parameters' and of_server


def paths_of(params: Tree) -> Paths:
  """Where the leaves of a model are in it."""
  return {path for path, _ in jax.tree.leaves_with_path(params)}


def fields(path: Path, model: Paths) -> list[str]:
  """Names of fields on the path of a leaf of a strategy's state, without those
  of the model, which may have the same, at its end."""
  ends = (n for n in range(len(path)) if path[n:] in model)
  return [
    key.name
    for key in path[: next(ends, len(path))]
    if isinstance(key, jax.tree_util.GetAttrKey)
  ]
