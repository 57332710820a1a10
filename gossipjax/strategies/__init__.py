"""Communication strategies, one file per algorithm; the directory is the list.

Each file defines `strategy(...) -> Strategy`, a `strategy.name` of a config. A
new file needs no entry anywhere else.
"""
