"""What several tests use.

advice        forecasts and kept runs that are made up
datasets      marks of tests that read data sets which no package ships
engine_wired  what the engine's processes send, by ledger and by interface
followed      processes of the engine that follow virtual time, compared with it
laws          what every strategy obeys
program       run.py as a process
quadratics    workers that minimise quadratics: small runs to compare
ray_nodes     a Ray cluster with a node in each namespace of the testbed
round_trips   round trips of a byte, and the rate, on one connection
tiers         parameters that are in the exhaustive tier
together      what one of several processes computes, for a comparison
tuning        a small comparison to tune, and the config that a tuning leaves
wired         what one of several processes sends over its network interface
workdirs      workdirs with records of one's choice
"""
