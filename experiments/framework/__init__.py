"""What the claims share.

claim              the interface of a claim: verdict, finding, flags
finding_files      finding.json, and the tables made from it
results_page       RESULTS.md, README's tables, the accuracies of advise
figures            what the figures of claims have in common
kept_results       results in small files, each computed once
kept_runs          training runs and measurements of a claim, each made once
single_run         one training run of a claim: its key, and how it is made
probe              measurements inside an aggregator, while a run trains
virtual_time_runs  short runs in virtual time
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
