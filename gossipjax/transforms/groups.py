"""Runs an aggregator among groups of workers, as if each group were alone."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gossipjax import collectives
from gossipjax.aggregator import Aggregator, stateless
from gossipjax.collectives import axis
from gossipjax.collectives.groups import in_groups, names_an_axis
from gossipjax.errors import UserError
from gossipjax.flatten import ravel
from gossipjax.traffic import SILENCE
from gossipjax.transforms import trace_checks, traced
from gossipjax.transforms.traced_collectives import SENDING, name_of

Groups = Callable[[int], list[list[int]]]  # number of workers -> groups.


def consecutive_groups(size: int) -> Groups:
  """Groups of `size` consecutive workers, for example those of a node.

  Raises:
    UserError: `size` does not divide the number of workers, when called with
      that number.
  """

  def groups(n: int) -> list[list[int]]:
    if size < 1 or n % size:
      raise UserError(
        f'Group size {size} does not divide workers={n}; set a divisor.'
      )
    return [list(range(g, g + size)) for g in range(0, n, size)]

  return groups


def counterparts(size: int) -> Groups:
  """Joins the first members of all consecutive groups, the second ones, etc."""
  return lambda n: [
    list(members) for members in zip(*consecutive_groups(size)(n), strict=True)
  ]


def among(
  groups: Groups, aggregator: Aggregator, others: Groups | None = None
) -> Aggregator:
  """Runs an aggregator in each group by itself.

  The aggregator's program is traced for as many workers as a group has; then
  its collectives are replaced by collectives within the groups. The first group
  draws the random numbers of the aggregator's seed; every other group folds its
  own number into the random keys.

  Args:
    groups: number of workers -> groups of equal size.
    aggregator: any.
    others: groups of another level, which are numbered first, so that no two
      levels draw the same random numbers.

  Raises:
    UserError: the update runs along several axes of workers, or the aggregator
      sends with functions of jax.lax, which no ledger counts.
  """

  def init(tree):
    table = groups(n := lax.axis_size(axis()))
    # All groups begin alike, as they do without groups.
    return _in_each(aggregator.init, table, np.zeros(n, int))(tree)

  def update(tree, state, step, active=True):
    if not isinstance(axis(), str):
      raise UserError(
        f'Groups need a single axis of workers, got {axis()}; make a mesh with '
        'one axis of all workers.'
      )
    table = groups(n := lax.axis_size(axis()))
    group = np.argsort(np.ravel(table)) // len(table[0])  # Of each worker.
    group += len(others(n)) if others else 0
    present = () if active is True else (active,)
    run_in_groups = _in_each(aggregator.update, table, group)
    return run_in_groups(tree, state, jnp.asarray(step), *present)

  return Aggregator(init, update)


def _in_each(function, table, group):
  """The function in each group of a table; `group`: the number of each worker's
  group, for random keys."""

  def of_group(*given):
    with collectives.of_groups():
      return function(*given)

  replace = functools.partial(_replace, table, group)
  differs = lambda e: name_of(e) == 'random_seed' or names_an_axis(e.params)
  rewriting = traced.Rewriting(differs, replace)
  return traced.replaced(of_group, rewriting, [(axis(), len(table[0]))])


def _replace(table, group, equation, operands, run):
  """Replaces collectives by those of groups, random keys by a group's own."""
  name = name_of(equation)
  if name == 'random_seed':
    (key,), number = run(operands), jnp.asarray(group)[lax.axis_index(axis())]
    # Folded in, not added: a sum would be the seed of another run.
    return [jnp.where(number > 0, jax.random.fold_in(key, number), key)]
  results = [
    in_groups(name, equation.params, x, table) for x in operands or [None]
  ]
  if results[0] is None:
    return run(operands)
  if name in SENDING:  # Later checks see gossipjax.collectives as its maker.
    trace_checks.check_made('An aggregator within groups', equation)
  return results


def local(aggregator: Aggregator) -> Aggregator:
  """Bills what an aggregator sends as traffic within a group."""

  def update(tree, state, step, active=True):
    tree, state, sent = aggregator.update(tree, state, step, active)
    inside = {
      'local': sent.bytes,
      'local_rounds': sent.rounds,
      'local_path_bytes': sent.path_bytes,
    }
    return tree, state, dataclasses.replace(sent, **inside)

  return Aggregator(aggregator.init, update)


def not_local(aggregator: Aggregator) -> Aggregator:
  """Bills nothing of what an aggregator sends as traffic within a group."""

  def update(tree, state, step, active=True):
    tree, state, sent = aggregator.update(tree, state, step, active)
    names = 'local', 'local_rounds', 'local_path_bytes'
    outside = {name: getattr(SILENCE, name) for name in names}
    return tree, state, dataclasses.replace(sent, **outside)

  return Aggregator(aggregator.init, update)


def by_shares(groups: Groups, aggregator: Aggregator) -> Aggregator:
  """Runs an aggregator on the mean of each group, split among its members.

  The members of a group average their trees with a reduce-scatter. Each runs
  the aggregator on its share of the mean. Then they gather the results, so that
  all of them hold the same tree.

  Args:
    groups: number of workers -> groups, whose members split a tree.
    aggregator: of one share, f[ceil(entries / members)].
  """

  def cut(tree):
    flat, unravel = ravel(tree)
    table = groups(lax.axis_size(axis()))
    rows = jnp.pad(flat, (0, -flat.size % len(table[0])))
    return rows.reshape(len(table[0]), -1), flat.size, unravel, table

  def init(tree):
    rows, *_, table = cut(tree)
    rank = in_groups('axis_index', {}, None, table)
    return aggregator.init(rows[rank])

  def update(tree, state, step, active=True):
    collectives.needs_everyone(active)
    rows, size, unravel, _ = cut(tree)
    share, down = _inside(groups, _scattered, rows)
    share, state, sent = aggregator.update(share, state, step)
    joined, up = _inside(groups, _gathered, share)
    return unravel(joined.reshape(-1)[:size]), state, down + sent + up

  return Aggregator(init, update)


def _scattered(rows: jax.Array):
  """This member's share of the group's mean, and the bill."""
  theirs, sent = collectives.all_to_all(rows)
  return theirs.mean(axis=0), sent


def _gathered(share: jax.Array):
  """The shares of all members, stacked, and the bill."""
  shares, _, sent = collectives.all_gather(share)
  return shares, sent


def _inside(groups: Groups, move, tree):
  """`move(tree)` among the members of each group, billed as local."""
  moving = stateless(lambda tree, step, active: move(tree))
  moved, _, sent = local(among(groups, moving)).update(tree, (), 0)
  return moved, sent
