"""A short campaign of faults; `python -m tests.campaign` runs long ones."""

import pytest

from tests.campaign import __main__ as campaign

# Kind, first seed, number of faults. Of kill and launch, faults that
# processes_test and resume_test do not cover.
FAULTS = (
  ('config', 0, 12),
  ('data', 0, 6),
  ('workdir', 0, 6),
  ('kill', 6, 1),
  ('kill', 8, 1),
  ('launch', 2, 2),
)


@pytest.mark.parametrize('kind, seed, count', FAULTS)
def test_no_fault_leads_to_a_finding(kind, seed, count, capsys):
  tally = campaign.campaign([kind], seed=seed, count=count, minutes=30)
  assert tally == {kind: [count, 0]}, capsys.readouterr().out


def test_every_kind_of_fault_is_tried():
  assert {kind for kind, *_ in FAULTS} == {*campaign.KINDS}
