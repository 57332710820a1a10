"""What the claims share.

claim              a claim's command line and files
kept_runs          training runs of a claim, each done once and kept
virtual_time_runs  the same for runs in virtual time
workloads          the tasks and networks that claims are tried on
seed_statistics    means, standard errors and differences over seeds
silent_steps       the cost of a silent step of triggered gossip
residual_growth    how the residual of a 2-bit codec grows
results_page       writes RESULTS.md
strategy_table     writes the README's table of strategies
strategy_pages     the documentation page of each strategy, for mkdocs
"""
