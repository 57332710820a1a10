"""The table of the answer, and the answer as Markdown."""

from gossipjax.comparison import answer_text, scores
from gossipjax.comparison.answer import Answer
from gossipjax.comparison.markup import escaped, escaped_rows, of_rows
from gossipjax.comparison.target_costs import Row, means
from gossipjax.comparison.units import duration, size
from gossipjax.results.total_time import MEASURED, VIRTUAL


def rows(answer: Answer) -> list[dict[str, str]]:
  """The table: a row per variant, the fastest first."""
  has_parts = answer.clock != MEASURED
  rest = 'waiting, transfers' if answer.clock == VIRTUAL else 'communication'
  return [
    {
      'run': row.name,
      'seconds to the target': answer_text.time(row)
      if row.arrives
      else 'never',
      **(
        {
          'computing': _part(row, row.computing_s),
          rest: _part(row, row.communication_s),
        }
        if has_parts
        else {}
      ),
      'sent to the target': answer_text.at_most(row) + size(row.bytes_sent)
      if row.arrives
      else '',
      f'speed-up over {answer.dense}': _speed_up(answer, row),
      f'best {scores.label(answer.metric)}': answer_text.best(answer, row),
    }
    for row in answer.rows
  ]


def _part(row: Row, seconds: float) -> str:
  text = answer_text.at_most(row) + duration(seconds)
  return text if row.arrives and seconds == seconds else ''


def _speed_up(answer: Answer, row: Row) -> str:
  """The ratio over common seeds; '' between two upper bounds, and over 0 s."""
  dense: Row = answer.reference
  bounds = row.at_once, dense.at_once
  if row is dense or not (row.arrives and dense.arrives) or all(bounds):
    return ''
  bound = 'at least ' * row.at_once + 'at most ' * dense.at_once
  theirs, mine = means('each', dense, row)
  return f'{bound}{theirs / mine:.3g} x' if mine else ''


def markdown(answer: Answer | None) -> str:
  """The answer and its table for comparison.md; '' if there is none."""
  if answer is None:
    return ''
  paragraphs = '\n\n'.join(
    text if text.startswith('    ') else escaped(text)
    for text in answer_text.paragraphs(answer)
  )
  table = of_rows(escaped_rows(rows(answer)), ('run',))
  return f'{paragraphs}\n\n{table}\n\n## All figures\n\n'
