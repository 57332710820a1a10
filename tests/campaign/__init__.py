"""The campaign of faults: seeded mistakes, damages, kills, and their verdicts.

    python -m tests.campaign --minutes=10 config data workdir kill launch
    python -m tests.campaign config --seed=17 --count=1

A seed makes one fault. Each finding is printed with the command that repeats
it. docs/reliability.md holds the figures that were reached.

config   command lines: each ends with a sentence, or trains
data     damaged files of data, links and traces: a sentence, or no difference
workdir  damaged files of a workdir: a sentence, or the same results
kill     signals at any moment: the same bits after --resume
launch   faults of a launcher's processes: all end in time, no orphan is left
damage   damages that a disk, a program or a hand does to a file
outcome  whether two runs of one config found the same
verdict  what is wrong with how a process ended
"""
