"""Trains the variants of a config and compares them.

compare          trains one variant after the other, writes the workdir
finish           writes the files of all of them together, at the end
in_python        compares strategies on a task, from Python
result           its result: answer, table, records, trained models
answer           which run reaches the target first, and how sure that is
certainty        whether one run surely takes longer than another
answer_text      the answer in words
answer_basis     where its target and its seconds come from, in words
unlearned        runs that learned little or nothing
never_exchanged  runs whose period is longer than their training
next_comparison  the command that may decide what the answer leaves open
answer_table     the answer as a table, and both as Markdown
targets          the target of a comparison, and which score is better
target_costs     seconds, bytes, steps of a variant to a target, over seeds
variant          one run of a comparison, resolved and checked
one_training     trains a variant and writes its records
summary          the entry of a variant in summary.json
virtual_time     the part of virtual time in summaries, tables and notes
scores           the scores that tables, figures and the report show
over_seeds       merges runs that differ only in the seed
seed_lines       the lines of figures, of seeds their mean
columns          columns that only some tables have
units            bytes and seconds in words, ticks of axes
markup           Markdown: tables, and names from files as text
table            the table of a comparison, for Markdown and the terminal
report_files     writes all of the following files, at any time
figures          scores against seconds, bytes and steps (PNG)
timelines        how workers in virtual time begin (PNG)
report           report.html: the comparison as one interactive page
several          several comparisons as one page
chart            the chart of that page
event_log        log.txt: what happens to the runs, in plain words
loggers          TensorBoard and Weights & Biases
progress         what is shown while a comparison runs, and at its end
"""
