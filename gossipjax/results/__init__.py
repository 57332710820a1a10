"""Every file of a workdir, written and read in one place.

workdir      lists the files; config.json, summary.json, timeline.json
record_file  records.jsonl: appends records, reads them as arrays
reader       reads all runs of some workdirs, without JAX
frames       records and ledgers of many runs as one pandas frame
analysis     answers questions about such frames
"""
