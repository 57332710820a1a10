"""Functions from an aggregator to an aggregator.

bucketed          runs an aggregator on each bucket of a gradient by itself
flattened         joins small leaves into long vectors before an exchange
granularity       the part that says which tensors form a bucket
nesterov          removes Nesterov's look-ahead before an exchange, restores it
outer             outer steps, with the workers' mean progress as a gradient
outer_optimizers  the part that says which optimizer takes outer steps
warmup            sends more entries at first; the part that says how many
added_argument    how granularity and warmup become arguments of strategies
"""
