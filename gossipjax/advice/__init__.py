"""Which strategy to use on a model, a machine and a link.

advise               ranks strategies by forecast seconds per step
forecast             seconds per step of a strategy on any link
bandwidth_figure     seconds per step against bandwidth, as a picture
step_cost            measures what one step costs a worker on this machine
step_traffic         the traffic of each step of a strategy, for any size
isolated_worker      runs one worker's program without the other workers
measured_accuracies  accuracies of strategies from the kept results
"""
