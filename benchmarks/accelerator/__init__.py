"""What is measured on a GPU, in parts that go on where they were cut off.

    python -m benchmarks.accelerator laws --out=DIR --minutes=9
    python -m benchmarks.accelerator --out=DIR --summary     on any machine
    python -m benchmarks.accelerator --out=DIR --rehearse    small, on a CPU

A call makes what DIR lacks of the parts that it names, or of all, and ends
within its minutes, with all processes that it has started. Several parts share
them evenly, but laws have 4 of more than 8, without which their tests would not
begin; what one part leaves is for the next. Each measure is a line of JSON in
DIR/PART.jsonl, kept as soon as it is made; why one failed is in
DIR/failed.jsonl. Compiled programs lie in DIR-programs, unless
JAX_COMPILATION_CACHE_DIR names another folder. Processes make laws and compiled
beside each other: half as many as there are cores, or --processes.

laws        1  laws, executors and golden figures on this backend
throughput  2  images/s, tokens/s and memory of virtual workers
selection   3  selecting, merging and packing, over one read
compiled    4  collectives compiled for eight GPUs, and which are hidden; no
               GPU is needed
training    5  workloads of the evidence queue at the scale gpu
traces      6  where the time of a step of each strategy goes

children       processes that end with all that they have started
eight_gpus     described GPUs to compile for, for part 4
measures       the loop that makes what is missing
problems       networks with random examples, for parts 2 and 4
programs       a step of training in three ways, for part 2
slopes         seconds of an operation, for parts 3 and 6
summary        tables of what was measured
"""
