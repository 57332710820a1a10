"""Users' strategies with uncounted messages or impure functions are refused."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name

import gossipjax as gj
from gossipjax import async_exchange, collectives, compressors, executors
from gossipjax.aggregator import (
  Aggregator,
  AsyncExchange,
  Strategy,
  every,
  identity,
  stateless,
)
from gossipjax.collectives import WORKERS, messages, reductions
from gossipjax.collectives.groups import in_groups
from gossipjax.comparison.variant import check
from gossipjax.config import defaults, resolve
from gossipjax.errors import UserError
from gossipjax.local_step import make_worker, probe
from gossipjax.strategies import compressed, hierarchical
from gossipjax.strategies.gossip import neighbor_mean
from gossipjax.topology import ring
from gossipjax.traffic import SILENCE, Traffic
from gossipjax.training import part_checks
from gossipjax.transforms import checked, groups
from gossipjax.transforms.origin import is_ours
from tests.support.tiers import exhaustive

ME = __name__
TREE = {'w': jnp.ones((64, 32)), 'b': jnp.ones(32)}
COUNT = itertools.count()
DRAWS = np.random.default_rng(0)


def mean(tree):
  total, workers, sent = collectives.all_reduce(tree)
  return jax.tree.map(lambda x: x / workers, total), sent


def of_gradients(update) -> Strategy:
  return Strategy(
    stateless(lambda tree, step, active: update(tree)), identity()
  )


def of_parameters(update) -> Strategy:
  return Strategy(identity(), stateless(update))


def uncounted() -> Strategy:
  return of_gradients(lambda tree: (lax.pmean(tree, WORKERS), SILENCE))


def uncounted_beside() -> Strategy:
  def update(tree):
    most = lax.pmax(jnp.max(tree['w']), WORKERS)
    found, sent = mean(tree)
    return jax.tree.map(lambda x: x / most, found), sent

  return of_gradients(update)


def uncounted_late() -> Strategy:
  """At every twentieth step."""

  def update(tree, step, active):
    del active
    talk = lambda: lax.pmean(tree, WORKERS)
    return lax.cond(step % 20 == 19, talk, lambda: tree), SILENCE

  return of_parameters(update)


def uncounted_in_groups() -> Strategy:
  neighbors = groups.consecutive_groups(2)
  return Strategy(groups.among(neighbors, uncounted().gradients), identity())


def uncounted_level() -> Strategy:
  return hierarchical.strategy(size=2, period=1, inner=uncounted())


def unbilled(mean=mean) -> Strategy:
  return of_gradients(lambda tree: (mean(tree)[0], SILENCE))


def billed_once(mean=mean) -> Strategy:
  """The second exchange is forgotten."""

  def update(tree):
    once, sent = mean(tree)
    return mean(once)[0], sent

  return of_gradients(update)


def billed_small() -> Strategy:
  """The bill comes from a formula of its own."""
  return of_gradients(lambda tree: (mean(tree)[0], Traffic.of(8, 1)))


def billed_by_branch() -> Strategy:
  """The bill of every third step has one of its two exchanges."""

  def update(tree, step, active):
    del active

    def talk():
      (found, sent), (other, _) = mean(tree), mean(tree)
      return jax.tree.map(jnp.add, found, other), sent

    quiet = lambda: (tree, SILENCE * jnp.bool_(True))
    return lax.cond(step % 3 == 2, talk, quiet)

  return of_parameters(update)


def billed_in_the_last_turn(loop) -> Strategy:
  """Each iteration of a loop overwrites the bill of the one before."""
  begin = lambda tree: (tree, SILENCE * jnp.bool_(True))
  turn = lambda carry: mean(carry[0])
  return of_gradients(lambda tree: loop(turn, begin(tree)))


def of_a_scan(turn, carry):
  return lax.scan(lambda carry, _: (turn(carry), None), carry, length=3)[0]


def of_a_while(turn, carry):
  more = lambda carry: carry[0] < 3
  next_turn = lambda carry: (carry[0] + 1, turn(carry[1]))
  return lax.while_loop(more, next_turn, (0, carry))[1]


def billed_in_a_scan() -> Strategy:
  """One of the two exchanges of each iteration is billed."""

  def update(tree):
    def once(carry, _):
      found, sent = mean(carry[0])
      more, dropped = mean(found)
      del dropped
      return (more, carry[1] + sent), None

    begin = tree, SILENCE * jnp.bool_(True)
    (tree, sent), _ = lax.scan(once, begin, None, length=3)
    return tree, sent

  return of_gradients(update)


compiled_mean = jax.jit(mean)


def quiet(tree):
  return tree, SILENCE * jnp.bool_(True)


def traced_before() -> Strategy:
  """JAX caches the trace of a function that it compiles."""
  return unbilled(compiled_mean)


def traced_before_twice() -> Strategy:
  return billed_once(compiled_mean)


def traced_before_in_a_branch() -> Strategy:
  """JAX also caches the traces of branches."""

  def update(tree, step, active):
    del active
    return lax.cond(step % 3 == 0, mean, quiet, tree)[0], SILENCE

  return of_parameters(update)


def sends_in_init() -> Strategy:
  begin = lambda tree: collectives.all_max(jnp.max(tree['w']))[0]
  update = lambda tree, state, step, active=True: (tree, state, SILENCE)
  return Strategy(Aggregator(begin, update), identity())


def role_of_a_worker() -> Strategy:
  """Half of the workers communicate, as their initial states say."""

  def update(tree, role, step, active=True):
    del step, active
    found, sent = lax.cond(role, mean, quiet, tree)
    return found, role, sent

  begin = lambda tree: lax.axis_index(WORKERS) % 2 == 0
  return Strategy(Aggregator(begin, update), identity())


KEY = jax.random.key(0)


def with_a_key_of_the_module() -> Strategy:
  def update(tree, step, active):
    del active
    mine = jax.random.bernoulli(jax.random.fold_in(KEY, step))
    return jax.tree.map(lambda x: x * mine, tree), SILENCE

  return of_parameters(update)


def with_names_of_its_own() -> Strategy:
  given = lambda x: checkpoint_name(x, 'bill of mine')
  return of_gradients(lambda tree: mean(jax.tree.map(given, tree)))


def own_branch() -> Strategy:
  def update(tree):
    large = jnp.max(tree['w']) > 0.5
    return lax.cond(large, lambda: mean(tree), lambda: (tree, SILENCE))

  return of_gradients(update)


def branch_of_a_worker() -> Strategy:
  def update(tree, step, active):
    del active
    mine = (step + lax.axis_index(WORKERS)) % 3 == 0
    return lax.cond(mine, lambda: mean(tree), lambda: (tree, SILENCE))

  return of_parameters(update)


def branch_on_own_state() -> Strategy:
  """A worker communicates once the norm that it adds up in its state is large;
  from the second step on this norm differs by worker."""

  def update(tree, kept, step, active=True):
    del step, active
    talk = lambda: (*mean(tree), jnp.float32(0))
    wait = lambda: (tree, SILENCE, kept + jnp.linalg.norm(tree['w']))
    found, sent, kept = lax.cond(kept > 1, talk, wait)
    return found, kept, sent

  return Strategy(Aggregator(lambda tree: jnp.float32(0), update), identity())


def branch_on_own_parameters() -> Strategy:
  """Gradients are averaged, but parameters differ from the first step on."""
  shared = stateless(lambda tree, step, active: mean(tree))

  def update(tree, step, active):
    del step, active
    large = jnp.max(tree['w']) > 2
    found, sent = lax.cond(
      large, lambda: mean(tree), lambda: (tree, SILENCE * jnp.bool_(True))
    )
    me = lax.axis_index(WORKERS)
    return jax.tree.map(lambda x: x * (1 + me), found), sent

  return Strategy(shared, stateless(update))


def bills_of_turns() -> Strategy:
  """Bills of a loop, of a reversed loop, and of one without iterations."""

  def update(tree):
    def turn(carry, _):
      (tree, more), (_, sent) = mean(carry[0]), carry
      return (tree, sent + more), more

    begin = tree, SILENCE * jnp.bool_(True)
    (tree, sent), _ = lax.scan(turn, begin, length=3)
    begin = tree, SILENCE * jnp.bool_(True)
    (tree, _), each = lax.scan(turn, begin, length=3, reverse=True)
    (tree, none), _ = lax.scan(turn, (tree, begin[1]), length=0)
    return tree, sent + none + jax.tree.map(lambda x: x.sum(0), each)

  return of_gradients(update)


def branch_on_agreed_state() -> Strategy:
  """As `branch_on_own_state`, with a norm on which all workers agree."""

  def update(tree, kept, step, active=True):
    del step, active
    size, sent = collectives.all_max(jnp.linalg.norm(tree['w']))
    quiet = SILENCE * jnp.bool_(True)
    found, more = lax.cond(kept > 1, lambda: mean(tree), lambda: (tree, quiet))
    return found, jnp.where(kept > 1, 0, kept + size), sent + more

  return Strategy(Aggregator(lambda tree: jnp.float32(0), update), identity())


def own_loop() -> Strategy:
  def update(tree):
    def once(carry):
      x, sent = carry
      x, more = mean(x)
      return jax.tree.map(lambda x: x / 2, x), sent + more

    started = tree, SILENCE * jnp.bool_(True)
    return lax.while_loop(lambda c: jnp.max(c[0]['w']) > 1e-3, once, started)

  return of_gradients(update)


def branch_of_a_scan() -> Strategy:
  """The condition is common at first, and a worker's own from then on."""

  def update(tree):
    def once(carry, x):
      level, sent = carry
      talk = lambda: mean(tree)[1]
      sent += lax.cond(level > 0.5, talk, lambda: SILENCE)
      return (level + x, sent), None

    begin = jnp.float32(0), SILENCE * jnp.bool_(True)
    (_, sent), _ = lax.scan(once, begin, tree['b'])
    return tree, sent

  return of_gradients(update)


def drawn() -> Strategy:
  """NumPy draws a mask once, while the step is traced."""
  mask = lambda x: x * (DRAWS.random(x.shape) < 0.5)
  return of_gradients(lambda tree: (jax.tree.map(mask, tree), SILENCE))


def counted_in_python() -> Strategy:
  return of_gradients(
    lambda tree: (jax.tree.map(lambda x: x * next(COUNT), tree), SILENCE)
  )


def kept_in_a_list() -> Strategy:
  means = []

  def update(tree):
    found, sent = mean(tree)
    means.append(found)
    return means[-2] if len(means) > 1 else found, sent

  return of_gradients(update)


def anchored_in_a_list() -> Strategy:
  """Keeps the first mean for good."""
  first = []

  def update(tree):
    found, sent = mean(tree)
    first[:] = first or [found]
    return jax.tree.map(jnp.subtract, found, first[0]), sent

  return of_gradients(update)


def kept_from_init() -> Strategy:
  begun = []

  def update(tree, state, step, active=True):
    found, sent = mean(tree)
    return jax.tree.map(jnp.subtract, found, begun[-1]), state, sent

  return Strategy(
    Aggregator(lambda tree: begun.append(tree), update), identity()
  )


def in_pairs_without_a_bill() -> Strategy:
  pairs = lambda x: in_groups('psum', {'axes': WORKERS}, x, [[0, 1], [2, 3]])
  return of_gradients(lambda tree: (jax.tree.map(pairs, tree), SILENCE))


def arrived_without_a_bill() -> Strategy:
  ring = [(i, (i + 1) % 4) for i in range(4)]
  arrived = lambda tree: messages.send_tree(tree, ring, True)
  return of_gradients(lambda tree: (arrived(tree), SILENCE))


def summed_without_a_bill() -> Strategy:
  return of_gradients(lambda tree: (reductions._sum(tree), SILENCE))


def state_is_a_number() -> Strategy:
  update = lambda tree, state, step, active=True: (tree, state + 1, SILENCE)
  return Strategy(Aggregator(lambda tree: 0, update), identity())


def state_is_empty() -> Strategy:
  update = lambda tree, state, step, active=True: (tree, state, SILENCE)
  return Strategy(Aggregator(lambda tree: jnp.zeros(0), update), identity())


def state_is_a_string() -> Strategy:
  update = lambda tree, state, step, active=True: (tree, state, SILENCE)
  return Strategy(Aggregator(lambda tree: {'at': 'x'}, update), identity())


def returns_two_values() -> Strategy:
  update = lambda tree, state, step, active=True: (tree, SILENCE)
  return Strategy(Aggregator(lambda tree: (), update), identity())


def returns_one_value() -> Strategy:
  return Strategy(stateless(lambda tree, step, active: tree), identity())


def traced(strategy: Strategy) -> None:
  """Traces a step of four workers, as is done before a run."""
  given = checked.of_strategy('mine', strategy)
  init, update = make_worker(given, probe(strategy, 0.1))
  step = lambda grads: update(init(TREE), grads, jnp.int32(0))
  everyone = jax.tree.map(lambda x: jnp.stack([x] * 4), TREE)
  jax.eval_shape(jax.vmap(step, axis_name=WORKERS), everyone)


@pytest.mark.parametrize(
  'strategy, message',
  [
    (uncounted, r'gradients\.update sends with psum .*trace_checks_test\.py'),
    (uncounted_beside, r'sends with pmax .* which no ledger counts'),
    (uncounted_late, r'parameters\.update sends with psum'),
    (unbilled, r'sends \(trace_checks_test\.py.*not return the bill of it'),
    (billed_once, r'sends \(trace_checks_test\.py.*not return the bill of it'),
    (billed_small, r'sends \(trace_checks_test\.py.*not return the bill of it'),
    (billed_by_branch, r'sends .*not return the bill of it'),
    (billed_in_a_scan, r'sends .*not return the bill of it'),
    *(
      (
        functools.partial(billed_in_the_last_turn, loop),
        r'sends \(trace_checks_test\.py.*not return the bill of it',
      )
      for loop in (of_a_scan, of_a_while)
    ),
    (traced_before, r'sends .*not return the bill of it'),
    (traced_before_twice, r'sends .*not return the bill of it'),
    (traced_before_in_a_branch, r'sends .*not return the bill of it'),
    (
      sends_in_init,
      r'init sends \(trace_checks_test.*begins without messages',
    ),
    (role_of_a_worker, r'of a lax\.cond .*depends on its own values'),
    (own_branch, r'of a lax\.cond .*depends on its own values'),
    (branch_of_a_worker, r'of a lax\.cond .*depends on its own values'),
    (branch_on_own_state, r'of a lax\.cond .*depends on its own values'),
    (branch_on_own_parameters, r'of a lax\.cond .*on its own values'),
    (own_loop, r'of a lax\.while .*depends on its own values'),
    (branch_of_a_scan, r'of a lax\.cond .*depends on its own values'),
    (drawn, r'a number that changes each time JAX traces it'),
    (counted_in_python, r'a number that changes each time JAX traces it'),
    (kept_in_a_list, r'gradients keeps an array of one call outside of'),
    (anchored_in_a_list, r'gradients keeps an array of one call outside of'),
    (kept_from_init, r'gradients keeps an array of one call outside of'),
    (in_pairs_without_a_bill, r'sends \(trace_checks_test.* returns no bill'),
    (arrived_without_a_bill, r'sends \(trace_checks_test.* returns no bill'),
    (summed_without_a_bill, r'sends \(trace_checks_test.* returns no bill'),
    (
      state_is_a_number,
      r'init returns the Python number 0 as state.*asarray\(0\)',
    ),
    (state_is_empty, r'init returns an array without entries as state'),
    (
      state_is_a_string,
      r"init returns 'x' as state\['at'\]; a state consists of",
    ),
    (
      returns_one_value,
      r'update raises TypeError: .* to return two values, the tree',
    ),
    (returns_two_values, r'update returns 2; it has to return three values'),
  ],
)
def test_a_strategy_that_breaks_a_rule_is_refused(strategy, message):
  with pytest.raises(UserError, match=f'mine: .*{message}'):
    traced(strategy())


@pytest.mark.parametrize('strategy', [uncounted_in_groups, uncounted_level])
def test_uncounted_messages_within_groups_are_refused(strategy):
  with pytest.raises(UserError, match=r'groups sends with psum .*test\.py'):
    traced(strategy())


def test_a_users_own_training_loop_refuses_an_incomplete_bill():
  loop = gj.worker(billed_once(), optax.sgd(0.1))
  tx = gj.as_optax(billed_once().gradients, axis=WORKERS)
  everyone = jax.tree.map(lambda x: jnp.stack([x] * 4), TREE)
  for step in (
    lambda grads: loop.update(loop.init(TREE), grads),
    lambda grads: tx.update(grads, tx.init(TREE)),
  ):
    with pytest.raises(UserError, match='does not return the bill of it'):
      jax.eval_shape(jax.vmap(step, axis_name=WORKERS), everyone)


@pytest.mark.parametrize(
  'strategy',
  [
    bills_of_turns,
    branch_on_agreed_state,
    with_a_key_of_the_module,
    with_names_of_its_own,
  ],
)
def test_a_valid_strategy_is_not_refused(strategy):
  traced(strategy())


def test_a_compiled_step_can_use_a_random_key_of_the_module():
  tx = gj.as_optax(with_a_key_of_the_module().parameters, axis=WORKERS)
  step = lambda x: tx.update(x, tx.init(TREE))[0]
  everyone = jax.tree.map(lambda x: jnp.stack([x] * 4), TREE)
  jax.jit(jax.vmap(step, axis_name=WORKERS))(everyone)


@pytest.mark.parametrize(
  'name',
  # A run does not check the package's own strategies; all are traced in CI.
  [
    name if name in ('gtopk', 'diloco', 'power_sgd') else exhaustive(name)
    for name in resolve.STRATEGIES
  ],
)
def test_no_strategy_of_the_package_is_refused(name, monkeypatch):
  config = resolve.strategy_config(name)
  found = resolve.strategy(config, optax.constant_schedule(0.1))
  slots = found.gradients, found.parameters, found.moments, found.state
  # The package's own slots are not checked; if they were, they would pass.
  assert all(is_ours(slot) for slot in slots if slot)
  monkeypatch.setattr(checked, 'is_ours', lambda slot: False)
  traced(found)


def test_an_object_with_a_function_of_a_user_is_not_ours():
  codec = compressors.topk(0.5)
  mine = codec._replace(compress=lambda x, *rest: codec.compress(x, *rest))
  assert is_ours(compressed.strategy(codec).gradients)
  assert not is_ours(compressed.strategy(mine).gradients)
  assert not is_ours(every(4, stateless(lambda *given: given)))
  assert is_ours(optax.adamw(0.1)) and not is_ours(syncing(0.1))
  assert not is_ours(functools.partial(max, key=lambda x: x))


def test_a_branch_on_an_agreed_value_is_not_refused():
  def update(tree):
    large, sent = collectives.agree(jnp.max(tree['w']) > 0.5)
    talk = lambda: mean(tree)
    found, more = lax.cond(large, talk, lambda: (tree, SILENCE))
    return found, sent + more

  traced(of_gradients(update))


def syncing(learning_rate):
  """An optimizer that averages updates, which no ledger counts."""
  step = lambda updates, params: jax.tree.map(
    lambda g: -0.1 * lax.pmean(g, WORKERS), updates
  )
  return optax.stateless(step)


def test_an_optimizer_that_sends_is_refused():
  found = defaults.get_config()
  found.task = defaults.task('digits', model='mlp', width=4)
  found.update(workers=4, batch_size=4, steps=1, executor='vmap')
  found.optimizer = defaults.optimizer(f'{ME}:syncing', 0.1)
  del found.optimizer['weight_decay']
  with pytest.raises(UserError, match=r'syncing sends with psum'):
    check('mine', found)


PAIR = neighbor_mean(async_exchange.pair)


@pytest.mark.parametrize(
  'exchange, message',
  [
    (AsyncExchange(PAIR, 'meat', lambda i, rng: [0]), "kind='meat' is none of"),
    (async_exchange.meets(PAIR, lambda i, rng: [99]), r'returns \[99\]; it'),
    (async_exchange.meets(PAIR, lambda i, rng: i), r'raises TypeError'),
    (async_exchange.meets(PAIR, lambda: [0]), r'raises TypeError'),
  ],
)
def test_an_invalid_exchange_is_refused(exchange, message):
  strategy = Strategy(identity(), neighbor_mean(ring), lambda workers: exchange)
  with pytest.raises(UserError, match=f'mine.async_exchange: .*{message}'):
    part_checks.async_exchange('mine', strategy, 4)


def visiting() -> Strategy:
  """Visits a server, without a center that the server could hold."""
  return Strategy(
    identity(), neighbor_mean(ring), lambda workers: async_exchange.visits(PAIR)
  )


def test_a_visit_needs_a_center():
  found = defaults.get_config()
  found.task = defaults.task('digits', model='mlp', width=4)
  found.update(workers=4, batch_size=4, steps=1)
  found.strategy = {'name': f'{ME}:visiting'}
  found.cluster = defaults.cluster()
  with pytest.raises(UserError, match='holds the field `center`'):
    check('mine', found)


def scalars() -> Aggregator:
  mean = lambda tree: jax.tree.map(jnp.mean, tree)
  return stateless(lambda tree, step, active: (mean(tree), SILENCE))


def test_users_own_training_loops_refuse_a_tree_of_another_form():
  rows = jax.tree.map(lambda x: jnp.stack([x] * 2), TREE)
  loop = gj.worker(Strategy(scalars(), identity()), optax.sgd(0.1))
  state = executors.on_one_device(loop.init)(rows)
  with pytest.raises(UserError, match=r'worker: the strategy.* as tree'):
    executors.on_one_device(loop.update)(state, rows)
  tx = gj.as_optax(scalars())
  step = lambda tree: tx.update(tree, tx.init(tree))[0]
  with pytest.raises(UserError, match=r'as_optax: the aggregator.* as tree'):
    executors.on_one_device(step)(rows)
