"""What the claims share.

claim              the interface of a claim: finding, flags, and how cases are
                   counted into a verdict
finding_files      finding.json, and the tables made from it
notes              the notes of a claim, from experiments/notes
results_page       RESULTS.md, README's tables, the runs that advise knows
known_runs_file    the latter, as a file of the package
figures            what the figures of claims have in common
points             figures of points, in lines or with names beside them
kept               results that are computed once, as lines of JSON
numerics           versions of what computes, part of the key of a kept run
single_run         one training run of a claim: its key, and how it is made
own_process        a training run in a process of its own
study              what a claim trains: it asks for runs, and gets results
best_rate          a method at its best learning rate, with all seeds; those of
                   site_methods and virtual_time choose theirs there
tried_rates        the rates that are tried, and which is best
matched            arguments at which a method sends some bytes
trigger_searches   triggers of gossip, each brought to the same bytes
gates              whether all-reduce reaches what a workload demands
trained            the command of a claim that rests on trainings
period_bills       bills of one period of methods, for any size
probe              measurements inside an aggregator, while a run trains
virtual_time       trainings in virtual time, judged by seconds to a target
real_time          processes that sleep as a trace says, and their prediction
other_load         how much of this machine others use meanwhile
waiting_process    one of those that wait for each other
gloo               joins the processes of a measurement
workload           what a workload is: task, network, schedule, gate
workloads          the tasks and networks that claims are tried on
small_workloads    small ones, on which many whole trainings are affordable
sizes              how long they train, at which rate tuning begins, and what
                   differs on a GPU
intervals          on which side of a bound a mean is, as seeds can tell: the
                   95 % rule of verdicts
seed_statistics    means, standard errors and differences over seeds
front              the front of score against bytes, and who gets further seeds
margins            who is as good as another on a workload
site_methods       methods that train between sites: configs, outer rates
step_times         seconds of a step: measured computing, modelled link
advice_trainings   trainings that advice is held against
advice_cases       what advice and simpler rules pick, and what that costs
regret             what following a rule costs, and how sure that is
silent_steps       the cost of a silent step of triggered gossip
lost_mass          the gradient mass that a sparse all-reduce loses
residual_growth    how the residual of a 2-bit codec grows
published_throughput  samples/s of five models, from the paper on gTop-k
strategy_table     bytes and sources of each strategy
repeat             repeats a kept run, and compares
runs_page          the page of all kept runs, for mkdocs
strategy_pages     the documentation page of each strategy, for mkdocs
"""
