"""Communication strategies of data-parallel training, compared.

The idea:
  aggregator      the types Aggregator and Strategy; chain, every
  async_exchange  kinds of exchange between workers that do not wait
  collectives     the only folder that moves bytes, and counts them
  traffic         a bill: bytes, messages and rounds of one worker
  topology        communication graphs as weighted permutations
  network         seconds that traffic takes on a link
  local_step      one step of one worker: all slots around an optimizer
  executors       how the workers run, by a name
  flatten         joins small leaves of a tree into long vectors
  norms           norms of trees, in float32 also where leaves are narrower
  errors          UserError: a mistake of the user, in a sentence

The algorithms:
  strategies      one file per algorithm
  compressors     codecs, and how the largest entries are found
  triggers        when a worker starts an exchange
  transforms      functions from an aggregator to an aggregator
  servers         parameter servers shared out over the workers

What runs them:
  devices         which devices run what: one per worker, or several
  config          turns names and numbers into functions
  data            data sets, splits and batches
  models          networks by name
  tasks           what is learned: data, model, loss and score
  training        one loop: train, evaluate, record, checkpoint
  engine          workers that do not wait, in processes of their own
  simulation      virtual time: machines, links, exchanges as events
  distributed     several processes and hosts
  audit           the ledger against the compiled program
  profiling       where the time of a program goes

What is made of the results:
  results         every file of a workdir, written and read in one place
  comparison      runs several strategies; table, figures, report
  advice          which strategy suits a model and a link
  tuning          which learning rate suits a strategy
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
  """Also the public names and strategies that are not imported yet."""
  files = (path.stem for path in _STRATEGIES.glob('[a-z]*.py'))
  return sorted({*globals(), *_PUBLIC, *files})


def __getattr__(name: str) -> Any:
  """A public name, or the function of a strategy by its name."""
  if name in _PUBLIC:
    return getattr(importlib.import_module(_PUBLIC[name]), name)
  # Nothing is imported to find out, because `from gossipjax import MODULE` asks
  # here first.
  if name.startswith('_') or not (_STRATEGIES / f'{name}.py').exists():
    errors = importlib.import_module('gossipjax.errors')
    close = errors.closest(name, __dir__())
    hint = f'; did you mean {close!r}?' if close else ''
    raise AttributeError(f'gossipjax has no {name!r}{hint}')
  in_python = importlib.import_module('gossipjax.config.in_python_arguments')
  return in_python.strategy_function(name)
