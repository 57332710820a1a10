"""Training in virtual time: the learning is real, time is modelled.

cluster         the simulated cluster: `config.cluster`, checked
cluster_checks  checks of the keys of `config.cluster`
trace           reads measured compute times from a file
compute_times   how long each worker computes, and when it is down
shared_link     a link that several transfers share
timeline        what timelines share: runner interface, time bookkeeping
events          the asynchronous timeline: events in the order of their time
rounds          the synchronous timeline: one round after the other
fleet           functions over the states of all workers
stacked_fleet   states of all workers in one stack
one_worker      what a worker of a fleet computes
separate_fleet  states of each worker in arrays of its own
server_leaves   finds the leaves of a state that a server stores once
round_runners   makes the runner of a run, which runs its rounds
goal            a held-out score at which training ends
late_workers    checks that a strategy works with `cluster.first`
simulate        trains in virtual time; yields records
dry_run         traces a round before training, to find errors
"""
