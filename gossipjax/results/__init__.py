"""The files of a workdir, except checkpoints: written and read here only.

workdir      lists the files; config.json, summary.json, timeline.json
lock         one process writes into a workdir at a time
timeline_file  timeline.json of virtual time, written and read
record_file  records.jsonl: appends records, reads them as arrays
reader       reads all runs of some workdirs, without JAX
frames       records and ledgers of many runs as one pandas frame
analysis     answers questions about such frames
"""
