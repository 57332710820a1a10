"""Marks of tests that need data sets which no package ships."""

import os
import pathlib

import pytest


def missing(name: str) -> str:
  """Why a data set cannot be used without a download; '' if it can."""
  folder = os.environ.get('GOSSIPJAX_DATA')
  if not folder:
    return f'{name} is not here: $GOSSIPJAX_DATA names no folder.'
  if not (pathlib.Path(folder) / name).is_dir():
    return f'{name} is not here: $GOSSIPJAX_DATA={folder} has no {name}/.'
  return ''


def needs(name: str) -> list[pytest.MarkDecorator]:
  """Marks of a test that reads this data set: `system`, skipped without it."""
  why = missing(name)
  return [pytest.mark.system, pytest.mark.skipif(bool(why), reason=why)]
