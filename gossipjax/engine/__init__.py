"""Workers that do not wait, in processes of their own, in real time.

rows            a round of few workers as one plain program
between         collectives, for all workers at once
dataflow        data dependencies of a program between workers
cut             cuts a round into what each process computes, and the messages
halves          the rounds of a strategy, cut
setup           what every process makes of a config
clock           seconds of a run, without its pauses
messages        the messages that processes send each other
peer            what a worker or a server does, whatever carries the messages
worker_process  the process of a worker
server_process  the process of a server's shard
crew            the processes of a run, started and held
watch           what they did; those that died are replaced
ray_cluster     Ray on this host, or a cluster of Ray
training        the training; yields records
"""
