"""Communication strategies, one file per algorithm, listed by this folder.

Each file defines `strategy(...) -> Strategy`, a `strategy.name` of a config. A
new file needs no entry anywhere else. A method that does not conserve the sum
over workers says so in its file, `NOT_CONSERVED = {slot: how}`. Three commands
then add its measured figures: `python -m tests.laws.golden_test` its golden
losses, `python -m experiments.framework.strategy_table NAME` its bytes per
step, and `python -m experiments.framework.results_page` its row in the README.
"""
