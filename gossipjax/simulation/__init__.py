"""Training in virtual time: the learning is real, time is modelled.

cluster         the machines of virtual time: `config.cluster`, checked
cluster_checks  checks of its keys
trace           measured seconds of computing, from a file
compute_times   how long each worker computes, and when it is down
shared_link     a link that several transfers share
timeline        what timelines share: the Player protocol, time bookkeeping
events          the asynchronous timeline: events in the order of their time
rounds          the synchronous timeline: one round after the other
fleet           functions over the states of all workers; the Player
stacked_fleet   states of all workers in one stack
separate_fleet  states of each worker in arrays of its own
server_leaves   leaves of a worker's state that a server keeps for all
players         the player of a run, at the beginning
simulate        the training in virtual time; yields records
"""
