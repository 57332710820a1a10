"""The command line.

console  flags, signals and exit codes; errors become one sentence
"""
