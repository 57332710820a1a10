"""Every file of a workdir, written and read in one place.

workdir   claims the folder, writes configs, records and summaries
reader    reads the runs of a workdir, without JAX
columns   reads records.jsonl into arrays
analysis  answers questions about many runs as pandas frames
"""
