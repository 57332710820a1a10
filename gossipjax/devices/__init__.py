"""Which devices run what: one for all workers, one for each, or several.

spmd             the program of one worker for all: vmap, shard_map, pmap
worker_devices   which devices the workers run on
platform         which platform programs are traced for
inner_devices    what the devices of a worker do among themselves
repeated_arrays  what every worker, or every device of a worker, begins with
"""
