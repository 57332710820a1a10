"""Several processes that train together.

processes           joins the others, decides together, ends together
stopping            stops all after the same step; ends a process that hangs
launcher            starts several processes on this host
interface_counters  bytes that left a network interface
"""
