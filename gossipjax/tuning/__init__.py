"""Equal tuning: every variant tries the same number of points of a grid.

tune           tunes all variants of a comparison
grid           values of config keys, and the points of their product
unknown_key    the error message for a key that no variant has
trials         short trainings, one per point and seed
best_points    chooses the best point of each variant; writes trials.md
doubts         points at an edge of the grid, and variants that learned nothing
config_source  writes the tuned config as a Python file
"""
