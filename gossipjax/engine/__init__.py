"""Asynchronous workers in processes of their own, in real time.

unrolled          a round of few workers as one plain program
collective_rules  evaluates collectives for all workers at once
dataflow          data dependencies of a program between workers
partition         cuts a round into what each process computes, and the messages
round_partitions  the rounds of a strategy, cut for its processes
setup             makes the functions of a run from its config, in each process
clock             seconds of a run, without its pauses
messages          the messages that processes send each other
peer              logic of a worker and a server, whatever carries the messages
worker_process    the process of a worker
server_process    the process of a server's shard
crew              starts, pauses and ends the processes of a run
actors            where they run, and whether they have started
monitor           collects what they did; replaces those that died
ray_cluster       Ray on this host, or a cluster of Ray
training          trains on these processes; yields records
"""
