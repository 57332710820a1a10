"""What the claims share.

claim              the form of a claim: verdict, finding, command line
finding_files      finding.json, and the tables made from it
results_page       RESULTS.md, README's tables, the accuracies of advise
figures            what the figures of claims have in common
kept_runs          training runs of a claim, each done once and kept
virtual_time_runs  the same for runs in virtual time
workloads          the tasks and networks that claims are tried on
seed_statistics    means, standard errors and differences over seeds
step_times         seconds of a step: measured computing, modelled link
silent_steps       the cost of a silent step of triggered gossip
lost_mass          the gradient mass that a sparse all-reduce loses
residual_growth    how the residual of a 2-bit codec grows
published_throughput  samples/s of five models, from the paper on gTop-k
strategy_table     bytes and sources of each strategy
strategy_pages     the documentation page of each strategy, for mkdocs
"""
