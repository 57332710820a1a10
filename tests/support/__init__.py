"""Code that several tests use.

advice        made-up forecasts and kept runs
datasets      marks of tests that read data sets which no package ships
engine_run    a run on the engine in a process of its own
engine_wired  what the engine's processes send, by ledger and by interface
followed      processes of the engine that follow virtual time, compared with it
laws          the laws that every strategy obeys, as functions
program       run.py as a process
quadratics    workers that minimise quadratics: small runs to compare
ray_nodes     a Ray cluster with a node in each namespace of the testbed
round_trips   round trips of a byte, and the rate, on one connection
tiers         parameters that are in the exhaustive tier
together      what one of several processes computes, for a comparison
tuning        a small comparison to tune, and the config that tuning writes
wired         what one of several processes sends over its network interface
wide_integers an exchange of every strategy, with and without 64 bits
workdirs      workdirs with given records
"""
