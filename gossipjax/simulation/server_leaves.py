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
  """Which leaves of a `Worker` are a server's, and its tree structure."""

  form: Any
  served: tuple[bool, ...]

  def part(self, leaves: Sequence[Any], served: bool) -> list[Any]:
    """Returns the leaves of the server if `served`, else the others."""
    chosen = zip(leaves, self.served, strict=True)
    return [x for x, s in chosen if s == served]

  def joined(self, own: Sequence[Any], server: Sequence[Any]) -> Worker:
    """Makes a `Worker` from its own leaves and the server's."""
    iterators = {False: iter(own), True: iter(server)}
    leaves = [next(iterators[s]) for s in self.served]
    return jax.tree.unflatten(self.form, leaves)


def layout_of(workers: Worker, kind: str) -> Layout:
  """Returns the layout of workers with this kind of exchange."""
  paths, form = jax.tree.flatten_with_path(workers)
  model = paths_of(workers.params)
  return Layout(form, tuple(_of_server(path, model, kind) for path, _ in paths))


def center_of(worker: Worker) -> list[Any]:
  """Returns the leaves of the parameters that a server holds, in order."""
  model = paths_of(worker.params)
  return [
    leaf
    for path, leaf in jax.tree.leaves_with_path(worker.parameters)
    if 'center' in fields(path, model)
  ]


def without_copies(workers: Worker, kind: str) -> Worker:
  """Keeps one copy of a server's leaves; the others are [workers, ...]."""
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
  """Returns the paths of the leaves of a model."""
  return {path for path, _ in jax.tree.leaves_with_path(params)}


def fields(path: Path, model: Paths) -> list[str]:
  """Names of fields on the path of a leaf of a strategy's state, without the
  model's own fields at its end, which may have the same names."""
  ends = (n for n in range(len(path)) if path[n:] in model)
  return [
    key.name
    for key in path[: next(ends, len(path))]
    if isinstance(key, jax.tree_util.GetAttrKey)
  ]
