"""Which strategy to use on a model, a machine and a link.

advise               forecasts the seconds of a step of every strategy
known_runs           what is known of a run, and how far it is from a config
known_file           known_runs.csv, what kept runs of the repository say
known_workdirs       what is known from workdirs given
known_table          what is known of a config's strategies, in words
risk                 whether a strategy gets where all-reduce does
ranking              what is expected of each strategy
halving              successive halving over strategies and learning rates
pilot_plan           what pilots a time allows
pilot_config         the config of a pilot
pilots               what is tried: short trainings of the user's own config
choice               which strategy to use
recommendation       what to use, and why, in words
tuned                the best of the pilots as a config
forecast             seconds per step of a strategy on any link
bandwidth_figure     seconds per step against bandwidth, as a picture
step_cost            measures what one step costs a worker on this machine
step_traffic         the traffic of each step of a strategy, for any size
periods              the periods of a strategy, and what comes before them
isolated_worker      runs one worker's program without the other workers
"""
