"""Communication strategies, one file per algorithm, listed by this folder.

Each file defines `strategy(...) -> Strategy`; its name is a `strategy.name` of
a config. A Strategy has aggregators (aggregator.py) of gradients and of
parameters and, if it needs them, of moments and of the model's state, and an
asynchronous form. The tutorial in docs/ writes one. If a method does not
conserve the sum over workers, its file has to say so with `NOT_CONSERVED =
{slot: how}`; otherwise tests of the contract fail.

The file alone is enough to train; to pass all tests, a strategy also needs

  golden losses         python -m tests.laws.golden_test
  a tuned score         python -m experiments.queue fronts
                        --workload=fashion-dense, python -m experiments.fronts
  a row in the README   python -m experiments.framework.strategy_table NAME,
                        python -m experiments.framework.results_page

Two lists name only some of the strategies: those with one-sided messages
(ONE_SIDED in tests/laws/contract_test.py), and those whose traffic is computed
for any model size (experiments/framework/period_bills.py).
"""
