"""A bounded campaign of faults; `python -m tests.campaign` makes long ones."""

import pytest

from tests.campaign import __main__ as campaign

COUNTS = {'config': 12, 'data': 6, 'workdir': 6, 'kill': 2, 'launch': 2}


@pytest.mark.parametrize('kind', campaign.KINDS)
def test_every_fault_ends_as_promised(kind, capsys):
  tally = campaign.campaign([kind], seed=0, count=COUNTS[kind], minutes=30)
  assert tally == {kind: [COUNTS[kind], 0]}, capsys.readouterr().out
