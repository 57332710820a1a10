"""Synchronous training: one program per worker, records as a stream.

worker_program  the program of one worker, built from a config
train           the training loop; yields records
evaluate        held-out scores and consensus distance
ledger          exact bytes per worker, modelled seconds per link
optimizer       the local optimizer and its learning-rate schedule
checkpoint      saves and restores a run bit-exactly
"""
