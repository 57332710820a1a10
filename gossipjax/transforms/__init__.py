"""Functions from an aggregator to an aggregator.

bucketed            runs an aggregator on each part of a tree by itself
late                an update in parts, so that its exchange can overlap steps
delayed             applies an exchange some steps after it was started
flattened           joins small leaves into long vectors before an exchange
fragments           cuts the layers of a model into fragments
granularity         the config part that says which tensors form a bucket
shards              runs an aggregator on each shard of all tensors by itself
groups              runs an aggregator among groups of workers
checked             checks the functions of strategies while they are traced
checked_compressor  checks the functions of compressors, likewise
trace_checks        refuses functions that send uncounted bytes, or are impure
local_branches      refuses collectives in which only some workers take part
origin              whether functions are of this package, or a user's
merges              weighted merges of the progress of workers
optax_link          as_optax: an aggregator in anyone's optax chain
moments             runs an aggregator on the moments of an optimizer
nesterov            exchanges without Nesterov's look-ahead
outer               outer steps, with the workers' mean progress as a gradient
outer_optimizers    the config part that says which optimizer takes outer steps
quorum              a server that takes an outer step once enough have reported
warmup              sends more entries at first; the config part for how many
added_argument      how granularity and warmup become arguments of strategies
traced              replaces equations of a program, cuts out parts
traced_collectives  the collectives of a traced program, and what made them
"""
