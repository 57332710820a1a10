"""Recommends a strategy for a model, a machine and a link.

advise               forecasts the seconds per step of every strategy
known_runs           known runs, and their distance from a config
known_file           reads known_runs.csv, runs kept in the repository
known_workdirs       known runs from the user's workdirs
known_table          the known runs nearest to a config, as a table
risk                 the probability that a strategy misses the target
ranking              ranks strategies by expected time to the target
halving              successive halving over strategies and learning rates
pilot_plan           plans the pilots that fit a time limit
pilot_config         the config of a pilot
pilots               trains pilots: short trainings of the user's own config
choice               chooses the strategy to use
recommendation       the recommendation and its reasons, in words
tuned                writes the best pilots as a config
forecast             seconds per step of a strategy on any link
bandwidth_figure     seconds per step against bandwidth, as a figure
step_cost            measures what one step costs a worker on this machine
step_traffic         the traffic of each step of a strategy, for any size
periods              the periods of a strategy, and its one-time steps
isolated_worker      runs one worker's program without the other workers
"""
