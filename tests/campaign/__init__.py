"""A fault-injection campaign: seeded mistakes, damage and kills, and verdicts.

    python -m tests.campaign --minutes=10 config data workdir kill launch
    python -m tests.campaign config --seed=17 --count=1

A seed determines one fault of each kind. Each finding is printed with the
command that repeats it. docs/reliability.md has the results so far.

config   mistaken command lines: each ends with an error message, or trains
data     damaged files of data, links and traces: an error message
workdir  damaged files of a workdir: an error message, or the same results
kill     signals at any moment: the same bits after --resume
launch   faults of a launcher's processes: all end in time, no orphan is left
damage   ways in which a disk, a program or a person damages a file
outcome  whether two runs of one config have the same results
verdict  what is wrong with how a process ended
"""
