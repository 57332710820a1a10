"""Benchmarks: ratios of times measured within one run, in alternating turns.

exchange      stages of a sparse exchange, over reading its entries
selections    energy, bytes and time of each selection, over exact top-k
passes        how often a step of top-k reads and writes its entries
permute       sending a tree, over sending one vector of as many bytes
memory        memory of emulated workers, in copies of the parameters
granularity   an exchange by model, by buckets, by layers
stages        seconds of each stage of each strategy's exchange
step          a step of `worker.update`, over the same step by hand
end_to_end    `train`, over the same training by hand
overheads     a user's task, a data source, several devices per worker, over
              steps without them
by_hand       data-parallel training with nothing but jax
engine        an exchange between processes, over copies of a model
virtual_time  a simulation, over its gradients alone
versus_torch  selection, packing and PowerSGD, over PyTorch
printing      times calls in turns, and prints ratios of their times
"""
