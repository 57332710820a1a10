"""Communication strategies, one file per algorithm, listed by this folder.

Each file defines `strategy(...) -> Strategy`, a `strategy.name` of a config:
aggregators (aggregator.py) of gradients and of parameters, of moments and of
the model's state if it has them, and an asynchronous form. The tutorial in
docs/ writes one. A method that does not conserve the sum over workers says so
in its file, `NOT_CONSERVED = {slot: how}`; without that laws of the contract
fail.

A file alone can be trained; to pass all tests it also needs

  golden losses         python -m tests.laws.golden_test
  a tuned score         python -m experiments.queue fronts
                        --workload=fashion-dense, python -m experiments.fronts
  a row in the README   python -m experiments.framework.strategy_table NAME,
                        python -m experiments.framework.results_page

Two lists cover only some of the strategies: those with one-sided messages
(ONE_SIDED in tests/laws/contract_test.py), and those whose traffic is computed
for any size of a model (experiments/framework/period_bills.py).
"""
