"""Several processes that train together.

processes           joins the others, decides together, ends together
stopping            stops all after the same step; ends a process that hangs
launcher            starts several processes on this host
allocator           memory of processes that exchange large arrays on a CPU
interface_counters  bytes that left a network interface
"""
