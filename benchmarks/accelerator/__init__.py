"""Measurements on a GPU, in parts that resume where they were cut off.

    python -m benchmarks.accelerator laws --out=DIR --minutes=9
    python -m benchmarks.accelerator --out=DIR --summary     on any machine
    python -m benchmarks.accelerator --out=DIR --rehearse    small, on a CPU

A call makes the measures that DIR lacks, of the named parts or of all. It ends
within its minutes, together with all processes that it started. Parts share the
minutes evenly; a part leaves unused minutes to the next. Each measure is a line
of JSON in DIR/PART.jsonl, kept as soon as it is made, for each kind of device;
reasons of failures are in DIR/failed.jsonl. Compiled programs are in
DIR-programs, unless JAX_COMPILATION_CACHE_DIR names another folder. The parts
laws and compiled each use several processes in parallel: half as many as there
are cores, at most 8, or --processes.

laws        1  laws, executors and golden figures on this backend
throughput  2  images/s, tokens/s and memory of virtual workers
selection   3  selecting, merging and packing, over one read
compiled    4  collectives compiled for eight GPUs, and which overlap with
               computing; no GPU is needed
training    5  workloads of the evidence queue at the scale gpu
traces      6  where the time of a step of each strategy goes

children       runs processes, and ends them with all that they have started
eight_gpus     described GPUs to compile for, for part 4
measures       the loop that makes missing measures
problems       networks with random examples, for parts 2 and 4
programs       a step of training in three ways, for part 2
pytest_runs    runs a file of tests, for part 1
slopes         seconds of an operation, for parts 3 and 6
summary        tables of what was measured
"""
