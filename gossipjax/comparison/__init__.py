"""Trains the variants of a config and compares them.

compare       trains one variant after the other, writes the workdir
in_python     the comparison of a task's strategies, from Python
result        what that leaves: answer, table, records, trained models
answer        which run is first at the target, and how sure that is
certainty     how surely one run takes longer than another
answer_text   the same in words
answer_basis  where its target and its seconds come from, in words
never_exchanged  runs whose period is longer than their training
next_comparison  the command that may decide what the answer leaves open
answer_table  the same as a table, and all of it as Markdown
targets       the target of a comparison, and which score is the better
target_costs  what a variant costs until a target, over seeds
variant       one run of a comparison, resolved and checked
one_training  trains a variant and writes its records
summary       the entry of a variant in summary.json
virtual_time  the part of virtual time in summaries, tables and notes
scores        the scores that tables, figures and the report show
over_seeds    runs that differ in the seed alone, as one
seed_lines    their records as one line, with a band
columns       columns that not every table has
units         bytes and seconds in words, ticks of axes
markup        Markdown: tables, and names from files as text
table         the table of a comparison, for Markdown and the terminal
report_files  writes all of the following files, at any time
figures       scores against steps, bytes and seconds (PNG)
timelines     what workers in virtual time did at first (PNG)
report        report.html: the comparison as one interactive page
several       several comparisons as one page
chart         the chart of that page
event_log     log.txt: what happened to the runs, in plain words
loggers       TensorBoard and Weights & Biases
progress      what is shown while a comparison runs, and at its end
"""
