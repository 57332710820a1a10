"""Real bytes and seconds: processes in network namespaces on one machine.

network        a namespace per worker, joined by a bridge
cable          the cable of a worker, which may delay
link_shape     the shape of a link: its rate, delay and loss
processes      runs the same program in every namespace
timing         seconds of exchanges, measured by all processes at once
timed_schemes  times schemes of exchange in network namespaces
step_seconds   seconds of training steps, with exchanges beside computing or not
utilisation    the share of time that workers compute, per method
torch_timing   the same for PyTorch's exchanges
calibrate      fits the link model to measured exchanges
"""
