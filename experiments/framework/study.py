"""Studies: generators that request the runs of a claim and get their results.

A study yields the runs that it needs, receives their results in the same order,
and returns what it found. To see its progress, the generator is run again from
the start on the kept results, until it requests a run that is not kept.
"""

import statistics
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from experiments.framework import single_run
from experiments.framework.result_store import Line, ResultStore
from experiments.framework.single_run import Result

UNKNOWN_S = 300.0  # Assumed for a run while none of its workload is kept.


class RunRequest(NamedTuple):
  """A run that a study needs.

  Attributes:
    workload: names the file that keeps it.
    config: of the run.
    probe: 'module:function' of a probe, '' for none.
  """

  workload: str
  config: ConfigDict
  probe: str = ''

  @property
  def key(self) -> dict[str, Any]:
    """The key of the run, which says what it computes."""
    return single_run.key_of(self.config, self.probe)


def line_of(request: RunRequest, kept: ResultStore) -> Line | None:
  """The kept line of a run, None if it was not made yet.

  A request without a probe also accepts a probed run, without its probe's
  numbers: it trains the same up to rounding (their scores are 0.1 points
  apart).
  """
  key = request.key
  line = kept.find(request.workload, key)
  if line or request.probe:
    return line
  probed = (
    one
    for one in kept.lines(request.workload).values()
    if 'probe' in one['key']
  )
  same = lambda one: one['key'] == key | {'probe': one['key']['probe']}
  line = next(filter(same, probed), None)
  return line and line | {'result': line['result'] | {'told': []}}


class RunInProgress(Exception):
  """A study needs a run that another process is making."""


Study = Generator[list[RunRequest], list[Result], Any]


class Progress(NamedTuple):
  """How far a study is.

  Attributes:
    found: what it returned; None if it is not finished.
    made: runs that it requested and that are kept.
    missing: runs that it requests now and that are missing.
  """

  found: Any
  made: list[RunRequest]
  missing: list[RunRequest]


def replay(study: Study, kept: ResultStore) -> Progress:
  """Runs a study as far as kept results allow."""
  made, results = [], None
  while True:
    try:
      requests = study.send(results)
    except StopIteration as end:
      return Progress(end.value, made, [])
    lines = [line_of(request, kept) for request in requests]
    pairs = [*zip(requests, lines, strict=True)]
    made += [request for request, line in pairs if line]
    if missing := [request for request, line in pairs if not line]:
      return Progress(None, made, missing)
    results = [line['result'] for line in lines if line]


def complete(
  study: Study, kept: ResultStore, make: Callable[[RunRequest], None]
) -> Any:
  """Runs a study to its end and makes all missing runs; returns its result.

  Args:
    study: a new one, which this call uses up.
    kept: where runs are kept.
    make: makes a run and keeps it, unless another process is making it.

  Raises:
    RunInProgress: another process is making a run that the study needs.
  """
  results = None
  while True:
    try:
      requests = study.send(results)
    except StopIteration as end:
      return end.value
    for request in requests:
      if line_of(request, kept) is None:
        make(request)
    lines = [line_of(request, kept) for request in requests]
    results = [line['result'] for line in lines if line]
    if len(results) < len(requests):
      raise RunInProgress


def seconds_of(missing: Sequence[RunRequest], kept: ResultStore) -> float:
  """Returns the median seconds of the workload's kept runs: of those with the
  same numbers of workers and steps, if there are any."""
  if not missing:
    return 0.0
  size = lambda key: [key['config'].get(name) for name in ('workers', 'steps')]
  lines = [*kept.lines(missing[0].workload).values()]
  same_size = [x for x in lines if size(x['key']) == size(missing[0].key)]
  seconds = [line['seconds'] for line in same_size or lines]
  return statistics.median(seconds) if seconds else UNKNOWN_S
