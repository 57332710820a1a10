"""The basis of an answer in words: where target and seconds come from."""

from gossipjax.comparison.answer import Answer
from gossipjax.comparison.units import duration
from gossipjax.results.total_time import MEASURED, VIRTUAL


def basis(answer: Answer) -> str:
  """Where target and seconds come from."""
  dense = answer.reference
  which = ', of its worst seed' * (len(dense.each) > 1)
  which += ' that did not diverge' * (dense.diverged > 0) + dense.ending
  plain = answer.higher and answer.target > 0
  worse = 100 * (1 - answer.share)
  share = f'{100 - worse:.4g} % of' if plain else f'{worse:.3g} % worse than'
  target = (
    'The target was given.'
    if not answer.share
    else f'The target is {share} the best of {answer.dense}{which}; '
    'config.target_share or config.target sets another, config.target_score '
    'another score.'
  )
  if answer.clock == VIRTUAL:
    return f'{target} Virtual seconds are modelled, waiting included.'
  if answer.clock == MEASURED:
    return f'{target} Seconds, computing and communication, are measured.'
  least, most = answer.sharing
  span = f'{least} to {most}' if least < most else most
  shared = f' and divided by the {span} devices it stands for' * (most > 1)
  return (
    f'{target} Seconds are computing, measured on this machine for '
    f'{duration(answer.measured_s)} or more{shared}, plus communication, '
    f'modelled for {answer.link}.'
  )
