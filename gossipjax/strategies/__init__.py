"""One file per algorithm; each defines `strategy(...)`.

The directory is the list: nothing else has to learn of a new file.
"""
