"""A training run in a process of its own."""

import multiprocessing
import os
import threading
import time
from multiprocessing import connection
from typing import Any

import jax
from ml_collections import ConfigDict

from experiments.framework import single_run
from experiments.framework.single_run import Result
from gossipjax import executors
from gossipjax.models import conv
from gossipjax.results import workdir
from gossipjax.results.provenance import usable_cores
from gossipjax.training.run import devices

STACKED = ('mlp', 'lstm')  # Networks that are as fast under vmap.
# Networks that are faster under vmap on one core (AMD Zen 5). The transformer
# takes 0.7 to 0.9 times the seconds (all_reduce, power_sgd, ok_topk, diloco,
# demo, sparse_loco). The CNN takes 0.6 to 0.8 times the seconds with the
# strategies listed here (1.15 to 1.3 on an Intel Sapphire Rapids). With others
# it is slower: both branches of a condition are computed (hylo, 0.7 times as
# fast), or rows are sorted one by one (demo, 0.7).
ON_ONE_CORE = ('transformer',)
ON_ONE_CORE_WITH = {'cnn': ('adaptive_gossip', 'gtopk', 'topk', 'union_topk')}
# Most workers whose convolutions are computed one by one: for the CNN with 32
# workers this takes 15 s more to compile than matrix products, and makes 1.5
# times as many steps a second.
MAX_CONV_WORKERS = 32


def in_a_process(
  config: ConfigDict, probe: str = '', programs: str = 'runs/programs'
) -> tuple[Result, float, dict[str, Any]]:
  """Runs `single_run.make` in its own process, with the devices it needs.

  A crash or a deadlock there is an error here. The process ends with its
  parent, however the parent ends.

  Args:
    config: of the run.
    probe: see `key_of`.
    programs: folder of compiled programs.

  Returns:
    The result, its seconds (on CPUs the CPU time, which leaves out time in
    which it was stopped or others had the core), and its provenance.

  Raises:
    RuntimeError: the process ended without a result.
  """
  context = multiprocessing.get_context('forkserver')
  context.set_forkserver_preload([__name__])
  ours, theirs = context.Pipe(duplex=False)
  values = config.to_dict()
  child = context.Process(
    target=_child, args=(values, probe, programs, theirs), daemon=True
  )
  child.start()
  theirs.close()
  try:
    return ours.recv()
  except EOFError as error:
    child.join()
    raise RuntimeError(
      f'the run ended with exit code {child.exitcode}: {values}'
    ) from error
  finally:
    child.terminate()
    child.join()


def _child(
  values: dict[str, Any],
  probe: str,
  programs: str,
  parent: connection.Connection,
) -> None:
  threading.Thread(target=_end_with_parent, daemon=True).start()
  config = ConfigDict(values)
  config.executor = executor_of(config)
  conv.MAX_UNGROUPED_WORKERS = max(conv.MAX_UNGROUPED_WORKERS, MAX_CONV_WORKERS)
  if config.executor != 'vmap':
    executors.emulate(devices([config]))
  # Runs that differ only in their seed share compiled programs.
  jax.config.update('jax_compilation_cache_dir', programs)
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.3)
  jax.config.update('jax_default_matmul_precision', precision_of(config))
  on_cpu = jax.default_backend() == 'cpu'
  clock = time.process_time if on_cpu else time.perf_counter
  began = clock()
  result = single_run.make(config, probe)
  parent.send((result, clock() - began, workdir.provenance()))


def executor_of(config: ConfigDict) -> str:
  """Returns the faster executor on a machine of few cores; results are equal.

  With devices that wait for each other, a step of a small network takes ten
  times as long (8 workers, an MLP, top-k: 50 ms, under vmap 5 ms). Convolutions
  of stacked workers cost more than that if devices share more than one core.
  """
  model = config.task.get('model')
  stacked = model in STACKED
  if usable_cores() == 1 and config.workers <= MAX_CONV_WORKERS:
    stacked |= model in ON_ONE_CORE
    stacked |= config.strategy.name in ON_ONE_CORE_WITH.get(model, ())
  return 'vmap' if stacked and not config.get('cluster') else config.executor


def precision_of(config: ConfigDict) -> str | None:
  """Returns the matmul precision, which on GPUs is that of float32, too.

  The reason is that a run has the same key whatever device made it.
  """
  on_cpu = jax.default_backend() == 'cpu'
  return None if on_cpu or config.compute_dtype else 'highest'


def _end_with_parent() -> None:
  connection.wait([multiprocessing.parent_process().sentinel])
  os._exit(1)
