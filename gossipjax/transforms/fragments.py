"""Cuts the layers of a model into fragments that are exchanged one by one."""

import itertools

import jax

from gossipjax.aggregator import Tree
from gossipjax.errors import UserError, nearest
from gossipjax.traffic import nbytes

PATTERNS = ('strided', 'sequential', 'balanced')


def _layers(tree: Tree) -> list[list[int]]:
  """Positions of the leaves of each layer, see `fragments`."""
  found: dict[tuple, list[int]] = {}
  for i, (path, _) in enumerate(jax.tree_util.tree_leaves_with_path(tree)):
    found.setdefault(path[:-1] or path, []).append(i)
  return list(found.values())


def fragments(
  tree: Tree, count: int, pattern: str = 'strided'
) -> list[list[int]]:
  """The fragments of a tree, as positions of their leaves.

  Args:
    tree: parameters. The leaves directly in one dict, list or tuple are a
      layer, such as each module of a transformer block; a leaf of the outermost
      one is a layer by itself.
    count: F, number of fragments.
    pattern: how fragments choose layers. strided: fragment f has the layers f,
      f + F, ... in the order of the tree, where names sort as text (Conv_10
      before Conv_2). sequential: it has neighbors in that order. balanced: each
      layer, the largest first, joins the fragment with the fewest bytes.

  Raises:
    UserError: there is no such pattern, or there are fewer layers than
      fragments.
  """
  if pattern not in PATTERNS:
    raise UserError(f'pattern={pattern} is unknown{nearest(pattern, PATTERNS)}')
  layers = _layers(tree)
  if not 1 <= count <= len(layers):
    raise UserError(
      f'fragments must be from 1 to the {len(layers)} layers of the model, '
      f'got {count}.'
    )
  if pattern == 'strided':
    parts = [layers[f::count] for f in range(count)]
  elif pattern == 'sequential':
    ends = [len(layers) * f // count for f in range(count + 1)]
    parts = [layers[a:b] for a, b in itertools.pairwise(ends)]
  else:
    parts = _balanced(tree, layers, count)
  return [sorted(i for layer in part for i in layer) for part in parts]


def _balanced(tree: Tree, layers: list[list[int]], count: int):
  leaves = jax.tree.leaves(tree)
  size = lambda layer: nbytes([leaves[i] for i in layer])
  parts: list[list[list[int]]] = [[] for _ in range(count)]
  filled = [0] * count
  for layer in sorted(layers, key=size, reverse=True):
    f = filled.index(min(filled))
    parts[f].append(layer)
    filled[f] += size(layer)
  return parts
