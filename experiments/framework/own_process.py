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
# And those that are faster so on one core (AMD Zen 5). The transformer takes
# 0.7 to 0.9 of the seconds (all_reduce, power_sgd, ok_topk, diloco, demo,
# sparse_loco). The CNN, with these strategies, 0.6 to 0.8 (on an Intel Sapphire
# Rapids 1.15 to 1.3); with others it loses, as both sides of a condition are
# computed (hylo, 0.7 times as fast) or rows are sorted one by one (demo, 0.7).
ON_ONE_CORE = ('transformer',)
ON_ONE_CORE_WITH = {'cnn': ('adaptive_gossip', 'gtopk', 'topk', 'union_topk')}
# Workers with a convolution each: 15 s more to compile for the CNN, and 1.5
# times as many steps a second as with products (32 workers).
MOST = 32


def in_a_process(
  config: ConfigDict, probe: str = '', programs: str = 'runs/programs'
) -> tuple[Result, float, dict[str, Any]]:
  """`single_run.make` in a process of its own, with the devices it needs.

  A crash or a deadlock there is an error here, and the process ends with its
  parent, however that ends.

  Args:
    config: of the run.
    probe: see `key_of`.
    programs: folder of compiled programs.

  Returns:
    The result, its seconds (on CPUs those of computing, without those in which
    it was stopped or others had the core), and with what it was made.

  Raises:
    RuntimeError: the process ended without a result.
  """
  context = multiprocessing.get_context('forkserver')
  context.set_forkserver_preload([__name__])
  ours, theirs = context.Pipe(duplex=False)
  given = config.to_dict()
  child = context.Process(
    target=_child, args=(given, probe, programs, theirs), daemon=True
  )
  child.start()
  theirs.close()
  try:
    return ours.recv()
  except EOFError as error:
    child.join()
    raise RuntimeError(
      f'the run ended with exit code {child.exitcode}: {given}'
    ) from error
  finally:
    child.terminate()
    child.join()


def _child(
  given: dict[str, Any],
  probe: str,
  programs: str,
  parent: connection.Connection,
) -> None:
  threading.Thread(target=_end_with_parent, daemon=True).start()
  config = ConfigDict(given)
  config.executor = executor_of(config)
  conv.MOST = max(conv.MOST, MOST)
  if config.executor != 'vmap':
    executors.emulate(devices([config]))
  # Runs that differ in their seed have the same programs.
  jax.config.update('jax_compilation_cache_dir', programs)
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.3)
  jax.config.update('jax_default_matmul_precision', precision_of(config))
  on_cpu = jax.default_backend() == 'cpu'
  clock = time.process_time if on_cpu else time.perf_counter
  began = clock()
  result = single_run.make(config, probe)
  parent.send((result, clock() - began, workdir.provenance()))


def executor_of(config: ConfigDict) -> str:
  """The faster one on a machine of few cores; the numbers are the same.

  Devices that wait for each other cost a small network ten times its step (8
  workers, an MLP, top-k: 50 ms where vmap takes 5); convolutions of stacked
  workers cost more than that, if devices have more than a core to share.
  """
  model = config.task.get('model')
  stacked = model in STACKED
  if usable_cores() == 1 and config.workers <= MOST:
    stacked |= model in ON_ONE_CORE
    stacked |= config.strategy.name in ON_ONE_CORE_WITH.get(model, ())
  return 'vmap' if stacked and not config.get('cluster') else config.executor


def precision_of(config: ConfigDict) -> str | None:
  """Products of float32 have all of its digits on GPUs, too.

  For a run is kept under the same key whatever device made it.
  """
  on_cpu = jax.default_backend() == 'cpu'
  return None if on_cpu or config.compute_dtype else 'highest'


def _end_with_parent() -> None:
  connection.wait([multiprocessing.parent_process().sentinel])
  os._exit(1)
