#!/usr/bin/env bash
# Two nodes of four GPUs, a process and a worker for each GPU. Submit it in a
# checkout on a file system that all nodes see, with the environment active:
#
#     sbatch deploy/slurm.sh                       a new run, runs/slurm-JOBID
#     WORKDIR=runs/slurm-42 sbatch deploy/slurm.sh --resume
#
# Not run on a cluster yet; tests check its syntax and its command line.
#SBATCH --job-name=gossipjax
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=02:00:00
# SIGTERM 60 s before the end: all stop after the same step, with a checkpoint.
#SBATCH --signal=TERM@60
set -euo pipefail

# One GPU for a process; JAX asks SLURM who the others are. A node whose GPU cannot
# be used ends the job, instead of training on its CPU.
export JAX_PLATFORMS=cuda
export XLA_FLAGS="--xla_gpu_enable_latency_hiding_scheduler=true ${XLA_FLAGS:-}"
# The network that NCCL takes, if it takes the wrong one by itself:
# export NCCL_SOCKET_IFNAME=ib0 NCCL_DEBUG=INFO

# Since Slurm 22.05 srun takes the number of cores only as a flag.
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" --kill-on-bad-exit=1 python run.py --distributed \
  --config=configs/cifar10.py \
  --config.workers="$SLURM_NTASKS" \
  --workdir="${WORKDIR:-runs/slurm-$SLURM_JOB_ID}" \
  "$@"
