"""The files of a workdir.

Other modules write the checkpoints (training/checkpoint.py), the trained model
(training/model_file.py), log.txt (comparison/event_log.py), trials.csv
(tuning/tune.py) and the plans of `advise` (advice/pilots.py).

workdir         lists the files; config.json, summary.json, timeline.json
provenance      what wrote the files: commit, versions, devices, settings
reservation     reserves a workdir for one config and one process at a time
inputs          what a run depends on besides its config: files, versions
machine         whether this process may resume a run: devices, settings
lock            lets one process at a time write into a workdir
timeline_file   writes and reads timeline.json of virtual time
more_steps      whether a run may be resumed with more steps or seeds
record_file     records.jsonl: appends records, reads them as arrays
record_order    checks that the records of a run are complete and in order
reader          reads all runs of some workdirs, without JAX
frames          records and ledgers of many runs as one pandas frame
crossing        where a curve reaches a goal
standard_error  the standard error of a mean over seeds
total_time      seconds of a run: computing and communication
frame_checks    whether a frame has the columns and scores that are needed
analysis        answers questions about such frames
"""
