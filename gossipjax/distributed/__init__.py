"""Several processes that train together.

processes           joins the other processes, shares decisions, ends all
coordinator         where the processes meet
shared_folder       checks that they see the same folder
stopping            stops all after the same step; ends a process that hangs
launcher            starts several processes on this host
ports               free ports of this host
echo                prints the output of these processes
allocator           memory of processes that exchange large arrays on a CPU
gpus                why JAX cannot use the GPUs of this machine
failures            which of them failed first, and which hang
lifeline            ends processes whose launcher died; shows which hang
constants           exit code and heartbeat of a launcher and its processes
interface_counters  bytes that left a network interface
"""
