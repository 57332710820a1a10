"""Two levels: one strategy inside groups of workers, another one between them.

  inside a group:    inner strategy among its workers, at every step
  between groups a:  y_ak <- outer strategy over a of y_ak, every `period` steps

where y_ak is the k-th share of the mean of group a's models. The workers of a
group send different shares over the slow link between groups; before and after,
they exchange shares over the fast link inside the group. Both levels are
billed: `Traffic.local` counts the bytes inside groups, whose link is
`config.group_link`. With all-reduce inside groups and an average between them
it is hierarchical SGD.

Castiglia et al., Multi-level local SGD, 2021. arXiv:2007.13819; Wang et al.,
Demystifying why local aggregation helps: convergence analysis of hierarchical
SGD, 2022. arXiv:2010.12998
"""

from gossipjax.aggregator import (
  Aggregator,
  Strategy,
  chain,
  every,
  identity,
)
from gossipjax.errors import UserError
from gossipjax.strategies import all_reduce, local_sgd
from gossipjax.transforms.groups import (
  among,
  by_shares,
  consecutive_groups,
  counterparts,
  local,
  not_local,
)
from gossipjax.transforms.nesterov import split_look_ahead, without_look_ahead


def strategy(
  size: int = 2,
  period: int = 8,
  inner: Strategy = all_reduce.strategy(),
  outer: Strategy = local_sgd.strategy(1),
) -> Strategy:
  """Args:
  size: workers per group; it divides the number of workers.
  period: local steps between two runs of the outer strategy, at least 1.
  inner: the strategy of the workers of a group.
  outer: the strategy between groups; its own period, and any schedule, count
    its runs. If it exchanges gradients, even only at first, it needs period=1.
    It sees a share of the model as one vector, where power_sgd finds no matrix.
  """
  if inner.moments or outer.moments:
    raise UserError('No level of hierarchical can exchange moments (des_loc).')
  if inner.state or outer.state:
    raise UserError('No level of hierarchical can exchange model state.')
  if period > 1 and outer.gradients != identity():
    raise UserError(
      'outer of hierarchical exchanges gradients, but groups that exchange '
      f'gradients only every {period} steps never agree; set period=1, or an '
      'outer strategy that exchanges only parameters, such as local_sgd.'
    )
  ahead, inside = split_look_ahead(inner.parameters)
  beyond, between = split_look_ahead(outer.parameters)
  if ahead and beyond and ahead != beyond:
    raise UserError(
      f'inner and outer of hierarchical have look_ahead={ahead} and {beyond}; '
      'an optimizer has one momentum.'
    )

  only_outer = inner.gradients == identity() == inside
  inner_groups = None if only_outer else consecutive_groups(size)

  def levels(inside: Aggregator, between: Aggregator) -> Aggregator:
    parts = []
    if inside != identity():
      parts.append(local(among(consecutive_groups(size), inside)))
    if between != identity():
      # All levels of an outer hierarchy are between the groups of this one.
      columns = not_local(among(counterparts(size), between, inner_groups))
      parts.append(every(period, by_shares(consecutive_groups(size), columns)))
    return chain(*parts) if parts else identity()

  return Strategy(
    levels(inner.gradients, outer.gradients),
    without_look_ahead(ahead or beyond, levels(inside, between)),
  )
