"""Trains the variants of a config and compares them.

compare    trains one variant after the other, writes the workdir
summary    one entry of summary.json per variant
table      the table of a comparison, for Markdown and the terminal
figures    scores against steps, bytes and seconds (PNG)
timelines  columns, notes and bars of runs in virtual time
report     report.html: the same, interactive, in one file
loggers    TensorBoard and Weights & Biases
progress   the progress bar and the table at the end
"""
