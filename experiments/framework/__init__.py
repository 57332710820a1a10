"""Code that the claims share.

claim                 the interface of a claim: finding, flags, and how
                      cases are counted into a verdict
finding_files         finding.json, and the tables made from it
notes                 the notes of a claim, from experiments/notes
results_page          RESULTS.md, tables of README.md and docs, and the runs
                      that advise knows
page_tables           tables in pages that are written by hand
known_runs_file       known_runs.csv of the package: the runs that advise knows
figures               drawing functions that the figures of claims share
points                plots of points, in lines or with names beside them
result_store          results that are computed once and kept as lines of JSON
forms                 the code that the arguments of a strategy select
numerics              versions of the numerical code, part of a kept run's key
single_run            one training run of a claim: its key, and how it is made
own_process           a training run in a process of its own
study                 generators that request the runs of a claim
best_rate             a method at its best learning rate, with all seeds;
                      site_methods and virtual_time tune with it, too
tried_rates           the learning rates that are tried, and which is best
matched               the argument at which a method sends given bytes
trigger_searches      triggers of gossip, each tuned to send the same bytes
gates                 whether all-reduce reaches the score a workload requires
training_claim        the command of a claim that rests on trainings
period_bills          traffic per parameter of one period of methods
probe                 measurements inside an aggregator, while a run trains
virtual_time          trainings in virtual time, judged by seconds to a target
real_time             processes that sleep as a trace says, and their prediction
other_load            the share of the cores that other programs use
synchronous_process   one process of a synchronous training of real_time
gloo                  connects the processes of a measurement
workload              the class of workloads: task, network, schedule, gate
workloads             the tasks and networks that claims are tried on
small_workloads       small workloads: many whole trainings are affordable
sizes                 how long workloads train, at which rate tuning starts, and
                      what differs on a GPU
intervals             whether seeds show a mean to be above or below a
                      bound: the 95 % rule of verdicts
seed_statistics       means, standard errors and differences over seeds
front                 the Pareto front of score against bytes, and which methods
                      get more seeds
margins               whether a method is as good as another on a workload
site_methods          methods that train between sites: configs, outer rates
step_times            seconds of a step: measured computing, modelled link
advice_trainings      trainings by which advice is judged
advice_cases          what advice and simpler rules pick, and what that costs
regret                extra time of following a rule, and its standard error
silent_steps          the cost of a silent step of triggered gossip
lost_mass             the gradient mass that a sparse all-reduce loses
residual_growth       how the residual of a 2-bit codec grows
published_throughput  samples/s of five models, from the paper on gTop-k
strategy_table        bytes and sources of each strategy
repeat                repeats a kept run, and compares
runs_page             the page of all kept runs, for mkdocs
strategy_pages        the documentation page of each strategy, for mkdocs
"""
