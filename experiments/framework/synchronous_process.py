"""A process of `real_time.train_synchronous`.

python -m experiments.framework.synchronous_process HOST:PORT PROCESSES PROCESS
SPEC OUT
"""

import json
import pathlib
import pickle
import sys
import time

import jax
import numpy as np
from ml_collections import ConfigDict

from experiments.framework import gloo
from gossipjax.distributed import lifeline
from gossipjax.training.run import resolve_run
from gossipjax.training.train import train


def main(where: str, processes: str, process: str, spec: str, out: str) -> None:
  """Trains; process 0 writes the curve as JSON: seconds, accuracy."""
  lifeline.hold()
  gloo.join(where, processes, process)
  values = pickle.loads(pathlib.Path(spec).read_bytes())
  config, trace, gradient_s, target = values
  run = resolve_run(ConfigDict(config))
  asked_s = np.loadtxt(trace, ndmin=2)[:, int(process)]
  spare_s = np.maximum(asked_s - gradient_s, 0.0)

  def sleep(step, workers):
    """Sleeps for the rest of the next gradient, once this step is done."""
    jax.block_until_ready(workers.params)
    time.sleep(spare_s[step % len(spare_s)])

  points = []
  for record in train(run, watch=sleep):
    # The stopwatch leaves out the first step, which compiles, but includes the
    # sleep after the last step, which belongs to the next one.
    took_s = record.train_s - spare_s[record.step % len(spare_s)]
    seconds = took_s * record.step / max(1, record.step - 1)
    points.append((seconds, record.test_accuracy))
    if record.test_accuracy >= target:
      break  # All processes stop here, as they have the same score.
  if process == '0':
    pathlib.Path(out).write_text(json.dumps(points))


if __name__ == '__main__':
  main(*sys.argv[1:])
