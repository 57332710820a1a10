"""Functions from an aggregator to an aggregator.

bucketed   runs an aggregator on each layer or bucket separately
flattened  joins small leaves into long vectors before an exchange
nesterov   removes Nesterov's look-ahead before an exchange, restores it after
"""
