"""The package, its requirements files and the tested versions agree."""

import pathlib
import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = pathlib.Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
FILES = ('requirements.txt', 'requirements-cpu.txt', 'requirements-dev.txt')


def lines(name: str) -> list[Requirement]:
  """The requirements of a file, without those that it includes."""
  text = (ROOT / name).read_text()
  return [
    Requirement(line)
    for line in text.splitlines()
    if line and not line.startswith(('#', '-r'))
  ]


def pinned() -> dict[str, str]:
  """The version of each package in constraints.txt."""
  found = {}
  for requirement in lines('constraints.txt'):
    (pin,) = requirement.specifier
    assert pin.operator == '==' and '+' not in pin.version, requirement
    found[canonicalize_name(requirement.name)] = pin.version
  return found


@pytest.mark.parametrize('name', FILES)
def test_every_requirement_has_a_tested_version_that_it_allows(name):
  versions = pinned()
  for requirement in lines(name):
    version = versions.get(canonicalize_name(requirement.name))
    assert version, f'{requirement} of {name} is not in constraints.txt.'
    assert version in requirement.specifier, requirement


def test_the_requirements_file_has_package_and_report_dependencies():
  declared = {
    str(Requirement(line))
    for line in PROJECT['dependencies']
    + PROJECT['optional-dependencies']['report']
  }
  assert {str(r) for r in lines('requirements-cpu.txt')} == declared


def test_pre_commit_runs_the_tested_ruff():
  text = (ROOT / '.pre-commit-config.yaml').read_text()
  revision = re.search(r'ruff-pre-commit\s+rev: v(\S+)', text)
  assert revision and revision[1] == pinned()['ruff']
