"""How fast it is, as ratios measured within one run: what is compared takes
turns, so that a machine that is busy for a while is busy for both."""
