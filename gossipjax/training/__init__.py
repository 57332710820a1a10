"""Training: one program per worker, records as a stream.

run                resolves a config into a typed `Run`, once
worker_program     the program of one worker, made from a run
train              synchronous training; yields records
one_program        steps as one program, whose exchange is part of the step
overlap            steps whose exchange overlaps with the steps that follow
bucket_overlap     steps that exchange gradients while others are computed
gradient_stages    a gradient in stages, each of which completes a bucket
overlap_slot       which exchange may overlap with computing: `config.overlap`
traffic_by_shapes  the traffic of steps without computing them
part_checks        checks optimizers and async exchanges while a step is traced
memory             refuses a run that needs more memory than a device has
loop               the training loop that real and virtual time share
record             one line of records.jsonl
machines           `config.cluster` and `config.engine`, checked
stream             batches of a data source, read ahead
gradient           the gradient of a batch: its precision, its micro-batches
inner              what a config says about the devices of a worker
model_state        what models keep besides parameters, averaged
evaluate           held-out scores and consensus distance
score_checks       whether scores are means or sums over examples
model_file         the trained model of a run, written and read
ledger             totals of bytes per worker, modelled seconds per link
optimizer          the local optimizer and its learning-rate schedule
momentum           checks that strategy and optimizer agree on the momentum
schedules          learning rates by step: every schedule of optax
checkpoint         saves, verifies and restores a run bit-exactly
checkpoint_form    whether a checkpoint has the arrays of a run
durable_files      files that survive a power failure; hashes that show damage
"""
