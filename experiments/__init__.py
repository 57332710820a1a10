"""The tested claims, one file each, which also computes its verdict.

adaptive_gossip  gossip that talks only after a change: traffic and accuracy
adaptive_time    the same in virtual time, where no worker waits
advice_quality   what it costs to follow the advice of `advise`
async_measured   workers that do not wait, as processes and in virtual time
async_crossover  whether not waiting is faster, by number of workers
crossover_measured  the same of real processes, beside virtual time
fronts           which strategies score most for their bytes
gtopk_cost       gTop-k in a link model, beside published throughputs
gtopk_latency    the rounds of gTop-k's exchanges, on links of 10 ms
gtopk_mass       the gradient mass that gTop-k loses, and what it costs
gtopk_scaling    seconds per exchange of gTop-k on real, slow links
hylo             Hylo's accuracy and time, and the limit of its codec
others_ledgers   what other programs count, against what moves
scale            what each method sends with 16 to 65,536 workers
sites            the DiLoCo family between sites: loss, bytes, seconds
speedups         how often a strategy is faster to a target than all-reduce
stragglers       what one slow or lost worker costs each method
train_1gbit      seconds to an accuracy on real, slow links
utilisation      the bandwidth that keeps accelerators busy, per method
utilisation_measured  the share of computing on real, slow links
union_size       selecting so that the union of choices is smaller

queue            trains what the claims need; runs/ keeps it
notes/           the notes of each claim, in Markdown: setup, columns, limits
framework        what claims share: verdicts, kept runs, workloads, tables
testbed          processes of this machine that talk over shaped links
"""
