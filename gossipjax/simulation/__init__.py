"""Training in virtual time: the learning is real, time is modelled.

cluster         machines, links and failures: `config.cluster`, checked
compute_times   how long each worker computes, and when it is down
shared_link     a link that several transfers share
timeline        what all timelines share: time bookkeeping, the Player protocol
events          asynchronous timeline: events in the order of their time
rounds          synchronous timeline: one round after the other
fleet           the states of all workers, and how a round updates them
stacked_fleet   states of all workers in one stack
separate_fleet  states of each worker in arrays of its own
simulate        the training loop in virtual time; yields records
"""
