"""Code that several tests use.

advice                  made-up forecasts and kept runs
datasets                marks of tests that need data sets no package ships
engine_interface_bytes  bytes of the engine's processes, by ledger and interface
engine_run              a run on the engine in a process of its own
engine_vs_virtual       processes of the engine, compared with virtual time
interface_bytes         bytes of one of several processes over its interface
laws                    the laws that every strategy obeys, as functions
multi_process           the program of one of several processes, to compare
program                 run.py as a process
quadratics              workers that minimise quadratics: small runs to compare
ray_nodes               a Ray cluster with a node in each testbed namespace
round_trips             round trips of a byte, and the rate, on one connection
tiers                   parameters that are in the exhaustive tier
tuning                  a small comparison to tune, and the config of tuning
wide_integers           an exchange of every strategy, with and without 64 bits
workdirs                workdirs with given records
"""
