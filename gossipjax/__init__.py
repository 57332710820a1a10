"""Communication strategies of data-parallel training, compared.

The core:
  aggregator      the types Aggregator and Strategy; chain, every
  async_exchange  kinds of exchange between asynchronous workers
  collectives     sends data between workers and counts the bytes; besides it,
                  only engine sends
  traffic         a bill: bytes, messages and rounds of one worker
  topology        communication graphs as weighted permutations
  network         seconds that traffic takes on a link
  local_step      one step of one worker: aggregators around an optimizer
  executors       runs the workers under vmap, shard_map or pmap
  flatten         joins small leaves of a tree into long vectors
  norms           norms of trees, computed in at least float32
  errors          UserError, whose message names a mistake and its remedy

The algorithms:
  strategies      one file per algorithm
  compressors     codecs, and searches for the largest entries
  triggers        when a worker starts an exchange
  transforms      functions from an aggregator to an aggregator
  servers         parameter servers sharded over the workers

What runs them:
  devices         places workers on devices: one each, or several
  config          turns names and values of a config into functions
  data            data sets, splits and batches
  models          networks by name
  tasks           learning tasks: data, model, loss and score
  training        one loop: train, evaluate, record, checkpoint
  engine          asynchronous workers, each in a process of its own
  simulation      virtual time: machines, links, exchanges as events
  distributed     training on several processes and hosts
  audit           compares the ledger with the compiled program
  profiling       measures where the time of a program goes

What processes the results:
  results         every file of a workdir, written and read in one place
  comparison      runs several strategies; table, figures, report
  advice          chooses a strategy for a model and a link
  tuning          chooses a learning rate for each strategy
  commands        the command line
"""

import importlib
import pathlib
from typing import Any

_STRATEGIES = pathlib.Path(__file__).with_name('strategies')

# Public names, each imported when it is first used.
_PUBLIC = {
  'Task': 'gossipjax.tasks.task',
  'Strategy': 'gossipjax.aggregator',
  'as_optax': 'gossipjax.transforms.optax_link',
  'worker': 'gossipjax.local_step',
  'UserError': 'gossipjax.errors',
  'ring': 'gossipjax.topology',
  'complete': 'gossipjax.topology',
  'exponential': 'gossipjax.topology',
  'hypercube': 'gossipjax.topology',
  'random_matching': 'gossipjax.topology',
  'task_from_linen': 'gossipjax.tasks.linen_models',
  'task_from_nnx': 'gossipjax.tasks.nnx_models',
  'compare': 'gossipjax.comparison.in_python',
  'trained': 'gossipjax.training.model_file',
  'ImageFolder': 'gossipjax.data.sources',
  'Tokens': 'gossipjax.data.sources',
  'npy': 'gossipjax.data.sources',
  'npz': 'gossipjax.data.sources',
  'total': 'gossipjax.tasks.metrics',
  'whole_set': 'gossipjax.tasks.metrics',
}


def __dir__() -> list[str]:
  """Lists also the public names and strategies that are not imported yet."""
  files = (path.stem for path in _STRATEGIES.glob('[a-z]*.py'))
  return sorted({*globals(), *_PUBLIC, *files})


def __getattr__(name: str) -> Any:
  """Returns a public object, or the function of a strategy, by its name."""
  if name in _PUBLIC:
    return getattr(importlib.import_module(_PUBLIC[name]), name)
  # The check looks for a file and imports nothing, because `from gossipjax
  # import MODULE` calls this function first.
  if name.startswith('_') or not (_STRATEGIES / f'{name}.py').exists():
    errors = importlib.import_module('gossipjax.errors')
    close = errors.closest(name, __dir__())
    hint = f'; did you mean {close!r}?' if close else ''
    raise AttributeError(f'gossipjax has no {name!r}{hint}')
  in_python = importlib.import_module('gossipjax.config.in_python_arguments')
  return in_python.strategy_function(name)
