"""Seconds and bytes of compiled programs on this machine.

interleaved_timing  times several calls in alternating turns
stage_times         seconds of each stage of a program, by JAX's profiler
instruction_stages  the stage of an exchange that an instruction belongs to
device_memory       memory that a program needs, and memory of a device
instruction_bytes   bytes that an instruction reads and writes
"""
