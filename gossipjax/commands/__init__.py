"""The command line: one file per command of `python -m gossipjax`.

run              trains a comparison
advise           recommends a strategy for a model and a link
advise_pilots    the part of `advise` that trains pilots
tune             tries the same grid for every variant
same_everywhere  checks that all processes have the same config and flags
report           writes the table, figures and report.html of a workdir again
launch           starts several processes of `run` on this host
new_optimizer    parses --config.optimizer.name=NAME and the arguments of NAME
new_part         parses --config.task.name and strategy.name in the same way
words            every override of the config as one word
command_line     parses flags and config overrides, prints help
flag_errors      error messages about flags and config files
file_errors      error messages about a file system that is full or broken
streams          output that is closed, full, or limited to few characters
console          how every command ends: signals, messages and exit codes
"""
