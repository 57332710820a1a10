"""The files and flags for many hosts are well formed and exist."""

import pathlib
import re
import shlex
import subprocess
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
SLURM = ROOT / 'deploy/slurm.sh'
KUBERNETES = ROOT / 'deploy/kubernetes.yaml'


def of_slurm() -> list[str]:
  """The command that srun starts, its variables replaced by a number."""
  text = SLURM.read_text().replace('\\\n', ' ').replace('"$@"', '')
  text = re.sub(r'\$\{?\w+(:-[^}]*)?\}?', '8', text)
  (line,) = (x for x in text.splitlines() if x.startswith('srun '))
  words = shlex.split(line)
  return words[words.index('python') :]


def of_kubernetes() -> list[str]:
  """The command of a pod."""
  _, job = yaml.safe_load_all(KUBERNETES.read_text())
  (container,) = job['spec']['template']['spec']['containers']
  assert container['command'][0] == 'python'
  return container['command']


@pytest.fixture(scope='module')
def known() -> str:
  """The help of the command that both start."""
  return subprocess.run(
    [sys.executable, 'run.py', '--help'],
    cwd=ROOT,
    check=True,
    capture_output=True,
    text=True,
  ).stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize('command', [of_slurm, of_kubernetes])
def test_a_command_has_files_and_flags_that_exist(command, known):
  _, program, *flags = command()
  assert (ROOT / program).is_file()
  given = dict(f.removeprefix('--').partition('=')[::2] for f in flags)
  assert (ROOT / given['config']).is_file()
  for name in given:
    if not name.startswith('config.'):
      assert f'--{name}:' in known, name
  assert {'distributed', 'config.workers', 'workdir'} <= {*given}


@pytest.mark.exhaustive
def test_the_help_has_the_flags_of_the_page_on_hosts(known):
  named = re.findall(r'`--(\w+)', (ROOT / 'docs/hosts.md').read_text())
  of_testbed = {'delay', 'loss'}
  assert 'address' in named
  assert all(f'--{name}:' in known for name in {*named} - of_testbed)


def test_the_script_of_slurm_is_one_of_bash():
  subprocess.run(['bash', '-n', SLURM], check=True)
  asked = dict(
    re.findall(r'^#SBATCH --([\w-]+)=(\S+)$', SLURM.read_text(), re.M)
  )
  assert asked['ntasks-per-node'] == asked['gpus-per-node']


def test_the_pods_are_as_many_as_processes_and_find_the_first():
  service, job = yaml.safe_load_all(KUBERNETES.read_text())
  spec, name = job['spec'], job['metadata']['name']
  given = dict(f.partition('=')[::2] for f in of_kubernetes() if '=' in f)
  processes = int(given['--num_processes'])
  assert processes == spec['completions'] == spec['parallelism']
  assert processes == int(given['--config.workers'])
  host = given['--coordinator'].partition(':')[0]
  assert host == f'{name}-0.{service["metadata"]["name"]}'
  assert spec['template']['spec']['subdomain'] == service['metadata']['name']
  assert service['spec']['selector'] == {'job-name': name}
