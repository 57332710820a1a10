"""Trains the variants of a config and compares them.

compare       trains one variant after the other, writes the workdir
in_python     the comparison of a task's strategies, from Python
variant       one run of a comparison, resolved and checked
summary       the entry of a variant in summary.json
virtual_time  the part of virtual time in summaries, tables and notes
scores        the scores that tables, figures and the report show
over_seeds    runs that differ in the seed alone, as one
seed_lines    their records as one line, with a band
markup        names from files and configs as text in Markdown
table         the table of a comparison, for Markdown and the terminal
report_files  writes all of the following files, at any time
figures       scores against steps, bytes and seconds (PNG)
timelines     what workers in virtual time did at first (PNG)
report        report.html: the comparison as one interactive page
chart         the chart of that page
loggers       TensorBoard and Weights & Biases
progress      what is shown while a comparison runs, and at its end
"""
