"""Mistakes of a user: one sentence that names the cause and the remedy."""

import contextlib
import difflib
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

MISTAKE = 2  # Exit code of a process that ends in a UserError.


class UserError(ValueError):
  """A mistake of the user.

  Its message says what was given, what is allowed and what to change.
  """


def nearest(name: str, options: Iterable[str]) -> str:
  """The end of a sentence about an unknown name: a suggestion, or all names.

  Args:
    name: as the user wrote it.
    options: all known names.

  Returns:
    "; did you mean 'x'?" if an option is close, else "; there are a, b, c." or
    "; there is none."
  """
  options = sorted(options)
  if close := closest(name, options):
    return f'; did you mean {close!r}?'
  return f'; there are {", ".join(options)}.' if options else '; there is none.'


def closest(name: str, options: Iterable[str]) -> str:
  """The option that an unknown name is likely to mean; '' if none is close."""
  return next(iter(difflib.get_close_matches(name, [*options], n=1)), '')


def pick(name: str, options: Mapping[str, Any], key: str) -> Any:
  """`options[name]`.

  Raises:
    UserError: there is none; the sentence names `key`, the key of the config.
  """
  if not isinstance(name, str) or name not in options:
    raise UserError(f'{key}={name} is unknown{nearest(str(name), options)}')
  return options[name]


# JAX's errors about values of a trace.
TRACED = (
  'TracerBoolConversionError',
  'TracerIntegerConversionError',
  'TracerArrayConversionError',
  'ConcretizationTypeError',
)


@contextlib.contextmanager
def blaming(what: str, files: bool = False) -> Iterator[None]:
  """Turns what a function of the user's raises into a sentence about it.

  Args:
    what: the function, as the user knows it.
    files: whether it reads files of the user's, whose errors are its own.

  Raises:
    UserError: it raised something; not for a lack of memory or, without
      `files`, a failing disk.
  """
  try:
    yield
  except (UserError, MemoryError):
    raise
  except Exception as error:
    if isinstance(error, OSError) and not files:
      raise
    # A first line may end where the cause begins, as those of JAX on trees do.
    lines = str(error).strip().splitlines()[:3] or ['nothing said']
    told = ' '.join(' '.join(lines).split())
    if type(error).__name__ in TRACED:
      told = (
        'Python or NumPy asks for a value that is known only when the compiled '
        'step runs; use jax.lax.cond, jnp.where and jnp in place of if and np'
      )
    raise UserError(
      f'{what} raises {type(error).__name__}: {told[:300].rstrip(".")}; '
      '--debug, or in Python the traceback above, shows where.'
    ) from error


def check_minutes(given: float) -> None:
  """Raises a UserError for minutes (--minutes) that nobody can wait."""
  if not 0 <= given < float('inf'):
    raise UserError(
      f'--minutes={given:g} is not a time; give 0 or more minutes.'
    )


# What is of a kind that an argument may have to be.
EXAMPLES = {
  'Task': 'gj.task_from_nnx(...)',
  'Strategy': 'gj.topk()',
  'Aggregator': 'gj.topk().gradients',
  'GradientTransformation': 'optax.adam(1e-3)',
}


def check_kind(where: str, given: object, kind: type) -> None:
  """Raises a UserError if an argument is of another kind.

  Args:
    where: the function and its argument, such as 'compare: the task'.
    given: the argument.
    kind: what it has to be, one of EXAMPLES.
  """
  if isinstance(given, kind):
    return
  shown = repr(given) if isinstance(given, str) else type(given).__name__
  name = kind.__name__
  article = 'an' if name[0] in 'AEIOU' else 'a'
  raise UserError(
    f'{where} is {shown}; it has to be {article} {name}, such as '
    f'{EXAMPLES[name]}.'
  )


# The modules of each optional part of the installation, see pyproject.toml.
EXTRAS = {
  'data': ('grain', 'PIL'),
  'ray': ('ray',),
  'report': ('bokeh', 'jinja2', 'matplotlib', 'pandas', 'rich'),
  'tensorboard': ('tensorboardX',),
  'wandb': ('wandb',),
}


def missing(extra: str) -> str:
  """A sentence that tells how to install an extra; '' if it is installed."""
  absent = [m for m in EXTRAS[extra] if importlib.util.find_spec(m) is None]
  if not absent:
    return ''
  return (
    f'Not installed: {", ".join(absent)}; '
    f"pip install 'gossipjax[{extra}]' adds what is missing."
  )


def require(extra: str) -> None:
  """Raises a UserError if a module of an extra is not installed."""
  if sentence := missing(extra):
    raise UserError(sentence)
