"""UserError: a mistake of the user, with its cause and remedy in a sentence."""

import contextlib
import difflib
import importlib.util
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

USER_ERROR_EXIT = 2  # Exit code of a process that ends in a UserError.
LONGEST = 600  # Characters of an exception that a message quotes.


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
  """Returns `options[name]`.

  Raises:
    UserError: the name is unknown; the message names `key`, the config's key.
  """
  if not isinstance(name, str) or name not in options:
    raise UserError(f'{key}={name} is unknown{nearest(str(name), options)}')
  return options[name]


# JAX's errors about code that needs the value of a traced array.
TRACED = (
  'TracerBoolConversionError',
  'TracerIntegerConversionError',
  'TracerArrayConversionError',
  'ConcretizationTypeError',
)


@contextlib.contextmanager
def as_user_error(what: str, files: bool = False) -> Iterator[None]:
  """Turns an exception of a user's function into a UserError about it.

  Args:
    what: the function, as the user knows it.
    files: whether the function reads the user's files, so that an OSError is a
      mistake of the user.

  Raises:
    UserError: the function raised an exception. A MemoryError and, without
      `files`, an OSError pass unchanged.
  """
  try:
    yield
  except (UserError, MemoryError):
    raise
  except Exception as error:
    if isinstance(error, OSError) and not files:
      raise
    # The cause may follow many lines, as in JAX's errors about trees.
    message = textwrap.shorten(str(error), LONGEST) or 'nothing said'
    if type(error).__name__ in TRACED:
      message = (
        'Python or NumPy asks for a value that is known only when the compiled '
        'step runs; use jax.lax.cond, jnp.where and jnp in place of if and np'
      )
    raise UserError(
      f'{what} raises {type(error).__name__}: {message.rstrip(".")}; '
      'run with --debug to see where (in Python, see the traceback above).'
    ) from error


def check_minutes(given: float) -> None:
  """Raises a UserError if --minutes is negative, infinite or not a number."""
  if not 0 <= given < float('inf'):
    raise UserError(
      f'--minutes={given:g} is not a time; give 0 or more minutes.'
    )


# By the name of a type, an expression that makes an object of that type.
EXAMPLES = {
  'Task': 'gj.task_from_nnx(...)',
  'Strategy': 'gj.topk()',
  'Aggregator': 'gj.topk().gradients',
  'GradientTransformation': 'optax.adam(1e-3)',
}


def check_kind(where: str, given: object, kind: type) -> None:
  """Raises a UserError if an argument has the wrong type.

  Args:
    where: the function and its argument, such as 'compare: the task'.
    given: the argument.
    kind: the type that it must have, one of EXAMPLES.
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
