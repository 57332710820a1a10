"""The files for many hosts are valid, and their flags exist."""

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


def slurm_command() -> list[str]:
  """The command that srun starts, with its variables replaced by a number."""
  text = SLURM.read_text().replace('\\\n', ' ').replace('"$@"', '')
  text = re.sub(r'\$\{?\w+(:-[^}]*)?\}?', '8', text)
  (line,) = (x for x in text.splitlines() if x.startswith('srun '))
  words = shlex.split(line)
  return words[words.index('python') :]


def kubernetes_command() -> list[str]:
  """The command of a pod."""
  _, job = yaml.safe_load_all(KUBERNETES.read_text())
  (container,) = job['spec']['template']['spec']['containers']
  assert container['command'][0] == 'python'
  return container['command']


@pytest.fixture(scope='module')
def help_text() -> str:
  """The help of run.py, which both start."""
  return subprocess.run(
    [sys.executable, 'run.py', '--help'],
    cwd=ROOT,
    check=True,
    capture_output=True,
    text=True,
  ).stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize('command', [slurm_command, kubernetes_command])
def test_a_command_has_files_and_flags_that_exist(command, help_text):
  _, program, *flags = command()
  assert (ROOT / program).is_file()
  given = dict(f.removeprefix('--').partition('=')[::2] for f in flags)
  assert (ROOT / given['config']).is_file()
  for name in given:
    if not name.startswith('config.'):
      assert f'--{name}:' in help_text, name
  assert {'distributed', 'config.workers', 'workdir'} <= {*given}


@pytest.mark.exhaustive
def test_the_help_has_all_flags_that_the_docs_of_hosts_name(help_text):
  named = re.findall(r'`--(\w+)', (ROOT / 'docs/hosts.md').read_text())
  testbed_flags = {'delay', 'loss'}
  assert 'address' in named
  assert all(f'--{name}:' in help_text for name in {*named} - testbed_flags)


def test_the_slurm_script_is_valid_bash_with_a_gpu_per_task():
  subprocess.run(['bash', '-n', SLURM], check=True)
  options = dict(
    re.findall(r'^#SBATCH --([\w-]+)=(\S+)$', SLURM.read_text(), re.M)
  )
  assert options['ntasks-per-node'] == options['gpus-per-node']


def test_each_process_has_a_pod_and_the_first_is_the_coordinator():
  service, job = yaml.safe_load_all(KUBERNETES.read_text())
  spec, name = job['spec'], job['metadata']['name']
  flags = dict(
    flag.partition('=')[::2] for flag in kubernetes_command() if '=' in flag
  )
  processes = int(flags['--num_processes'])
  assert processes == spec['completions'] == spec['parallelism']
  assert processes == int(flags['--config.workers'])
  host = flags['--coordinator'].partition(':')[0]
  assert host == f'{name}-0.{service["metadata"]["name"]}'
  assert spec['template']['spec']['subdomain'] == service['metadata']['name']
  assert service['spec']['selector'] == {'job-name': name}
