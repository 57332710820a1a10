"""gTop-k's cost: does the link model reproduce the published throughputs?

    python -m experiments.gtopk_cost

Makes the bills of the real strategies for gradients of the published models'
sizes, and turns them into seconds with the published latency and bandwidth. A
bill depends on shapes alone, so nothing of that size is computed.

Shi et al., 2019. arXiv:1901.04359
"""

import functools
import pathlib

import jax
import jax.numpy as jnp
from matplotlib.figure import Figure

from experiments.framework import claim, figures, notes
from experiments.framework.published_throughput import MODELS
from gossipjax import network
from gossipjax.advice import step_traffic
from gossipjax.strategies import all_reduce, gtopk, topk

CLAIM = claim.Claim(
  'gtopk_cost',
  'gTop-k on 32 hosts with 1 GbE',
  'gTop-k is faster than dense S-SGD and Top-k on 32 hosts with 1 GbE',
  '2.7 to 12 and 1.1 to 1.7 times the scaling efficiency (arXiv:1901.04359)',
)
DENSITY = 0.001
OVER_DENSE = 'gTop-k throughput over dense'
OVER_TOPK = 'gTop-k throughput over top-k'
STEP = 'gTop-k seconds per step'
SCHEMES = {
  'dense': all_reduce.strategy(),
  'top-k': topk.strategy(DENSITY),
  'gTop-k': gtopk.strategy(DENSITY),
  'gTop-k butterfly': gtopk.strategy(DENSITY, exchange='butterfly'),
}


@functools.cache
def seconds(scheme: str, size: int, workers: int) -> float:
  """Modelled communication seconds of a step, from the strategy's bill."""
  gradients = jax.ShapeDtypeStruct((size,), jnp.float32)
  sent = step_traffic.per_step(
    SCHEMES[scheme], gradients, workers, steps=range(1)
  ).sent
  return float(network.seconds(network.PRESETS['1gbe'], sent)[0])


def measure(quick: bool, folder: pathlib.Path) -> claim.Finding:
  """Models all gradient sizes with 4 to 1,024 workers; quick, 4 to 32."""
  del folder
  sizes = (4, 8, 16, 32) if quick else (4, 8, 16, 32, 64, 256, 1024)
  rows = [_row(model, p) for model in MODELS for p in sizes]
  return claim.Finding(
    verdict(rows),
    rows,
    NOTES,
    f'gradients of {len(MODELS)} models on a latency-bandwidth model of 1 GbE',
    'a modelled step, no training',
    seeds=0,
  )


def verdict(rows: claim.Rows) -> claim.Verdict:
  """Counts the models on which gTop-k beats both others with 32 workers."""
  at_32 = [row for row in rows if row['workers'] == 32]
  known = [row for row in at_32 if row[f'{OVER_DENSE}, model'] is not None]
  met = [
    min(row[f'{over}, model'] for over in (OVER_DENSE, OVER_TOPK)) >= FASTER
    for row in known
  ]
  dense = claim.span(known, f'{OVER_DENSE}, model', '.1f')
  sparse = claim.span(known, f'{OVER_TOPK}, model')
  errors = [row[f'{STEP}, model'] / row[f'{STEP}, published'] for row in known]
  return claim.Verdict(
    sum(met),
    len(met),
    f'in the model {dense} times the throughput of dense and {sparse} times '
    'that of Top-k',
    f'With 32 workers the model gives gTop-k {dense} times the throughput of '
    'dense S-SGD (published: 2.7 to 12; from the published samples/s: '
    f'{claim.span(at_32, f"{OVER_DENSE}, published", ".1f")}) and {sparse} '
    'times that of Top-k (published: 1.1 to 1.7; from the samples/s: '
    f'{claim.span(at_32, f"{OVER_TOPK}, published", ".1f")}). The modelled '
    f'gTop-k step takes {min(errors):.2f} to {max(errors):.2f} of the '
    'published one: what the published runs spent beyond latency and bandwidth '
    'is not in the model.',
    open=len(at_32) - len(met),
  )


FASTER = 1.05  # As in speedups.
NOTES = notes.of(
  'gtopk_cost',
  faster=FASTER,
)


def _row(name: str, workers: int) -> dict:
  model = MODELS[name]
  comm = {s: seconds(s, model.size, workers) for s in SCHEMES}
  published = model.throughput.get(workers, (None,) * 3)
  row = {'model': name, 'workers': workers}
  row |= {f'{s}: communication seconds': comm[s] for s in SCHEMES}
  step = None
  if model.batch:
    step = {
      s: model.compute_s + comm[s] + (s != 'dense') * model.select_s
      for s in comm
    }
  efficiency = 'gTop-k scaling efficiency'
  row[f'{STEP}, model'] = step and step['gTop-k']
  row[f'{STEP}, published'] = claim.ratio(model.batch, published[2])
  row[f'{efficiency}, model'] = (
    step and model.batch / model.alone / step['gTop-k']
  )
  row[f'{efficiency}, published'] = claim.ratio(published[2], model.alone)
  row[f'{OVER_DENSE}, model'] = step and step['dense'] / step['gTop-k']
  row[f'{OVER_DENSE}, published'] = claim.ratio(published[2], published[0])
  row[f'{OVER_TOPK}, model'] = step and step['top-k'] / step['gTop-k']
  row[f'{OVER_TOPK}, published'] = claim.ratio(published[2], published[1])
  return row


def figure(rows: claim.Rows) -> Figure:
  """Modelled communication seconds against workers, a panel per model."""
  found = Figure(figsize=(13, 3.4), layout='constrained')
  models = figures.distinct(rows, 'model')
  panels = found.subplots(1, len(models), sharex=True)
  for axes, model in zip(panels, models, strict=True):
    group = [row for row in rows if row['model'] == model]
    for scheme in SCHEMES:
      axes.loglog(
        [row['workers'] for row in group],
        [row[f'{scheme}: communication seconds'] for row in group],
        '.-',
        label=scheme,
        base=2,
      )
    axes.set(title=model, xlabel='workers')
  panels[0].set_ylabel('communication seconds a step (model)')
  figures.legend(found, panels[0])
  return found


if __name__ == '__main__':
  claim.run(CLAIM, measure, figure)
