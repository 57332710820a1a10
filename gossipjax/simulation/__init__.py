"""Training in virtual time: the learning is real, time is modelled.

cluster         the machines of virtual time: `config.cluster`, checked
cluster_checks  checks of its keys
trace           measured seconds of computing, from a file
compute_times   how long each worker computes, and when it is down
shared_link     a link that several transfers share
timeline        interface of what is simulated; how workers spent their time
events          the asynchronous timeline: which worker is next
rounds          the synchronous timeline: one round after the other
fleet           functions over the states of all workers
stacked_fleet   states of all workers in one stack
one_worker      what a worker of a fleet computes
separate_fleet  states of each worker in arrays of its own
server_leaves   finds the leaves of a state that a server stores once
players         makes the player of a run
goal            a held-out score at which training ends
late_workers    what `cluster.first` asks of a strategy
simulate        the training in virtual time; yields records
rehearsal       traces a round before training, to find errors
"""
