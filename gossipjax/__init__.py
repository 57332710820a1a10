"""Communication strategies of data-parallel training, compared.

The idea:
  aggregator      the types Aggregator and Strategy; chain, every, as_optax
  async_exchange  kinds of exchange between workers that do not wait
  collectives     the only file that moves bytes, and counts them
  traffic         the counts: bytes, messages and rounds of one worker
  topology        communication graphs as weighted permutations
  network         seconds that traffic takes on a link
  worker          one step of one worker: both slots around an optimizer
  executors       runs the workers under vmap, shard_map or pmap
  flatten         joins small leaves of a tree into long vectors
  errors          UserError: a mistake of the user, in a sentence

The algorithms:
  strategies      one file per algorithm
  compressors     codecs, and how the largest entries are found
  triggers        when a worker starts an exchange
  transforms      functions from an aggregator to an aggregator
  servers         parameter servers shared out over the workers

What runs them:
  config          turns names and numbers into functions
  data            data sets, splits and batches
  models          networks by name
  tasks           what is learned: data, model, loss and score
  training        one loop: train, evaluate, record, checkpoint
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
from typing import Any

# Public names, each imported when it is first used.
_PUBLIC = {
  'Task': 'gossipjax.tasks.task',
}


def __getattr__(name: str) -> Any:
  if name not in _PUBLIC:
    raise AttributeError(f'gossipjax has no {name!r}')
  return getattr(importlib.import_module(_PUBLIC[name]), name)
