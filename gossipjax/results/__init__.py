"""The files of a workdir.

Others write the checkpoints (training/checkpoint.py), the trained model
(training/model_file.py), log.txt (comparison/event_log.py), trials.csv
(tuning/tune.py) and the plans of `advise` (advice/pilots.py).

workdir      lists the files; config.json, summary.json, timeline.json
provenance   what wrote the files: commit, versions, devices, settings
reservation  reserves a workdir for one config and one process at a time
inputs       what a run depends on beside its config: files, versions
machine      whether a run may go on here: processes, devices, settings
lock         one process writes into a workdir at a time
timeline_file  timeline.json of virtual time, written and read
more_steps   whether it may go on to more steps or seeds than it began with
record_file  records.jsonl: appends records, reads them as arrays
record_order checks that the records of a run are all there, in order
reader       reads all runs of some workdirs, without JAX
frames       records and ledgers of many runs as one pandas frame
crossing     where a curve reaches a goal
standard_error  of a mean over seeds
total_time   seconds of a run: computing and communication
frame_checks whether such a frame has what is asked of it
analysis     answers questions about such frames
"""
