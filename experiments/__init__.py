"""The claims, one file each; a file also computes the verdict on its claim.

adaptive_gossip       gossip that sends only after changes: traffic, accuracy
adaptive_time         the same in virtual time, where no worker waits
advice_quality        what it costs to follow the advice of `advise`
async_measured        workers that do not wait: processes against virtual time
async_crossover       whether not waiting is faster, by number of workers
crossover_measured    the same with real processes, against virtual time
fronts                which strategies score best for the bytes they send
gtopk_cost            gTop-k in a link model, against published throughputs
gtopk_latency         rounds of gTop-k's exchanges on links with 10 ms latency
gtopk_mass            the gradient mass that gTop-k loses, and what it costs
gtopk_scaling         seconds per exchange of gTop-k on real, slow links
hylo                  Hylo's accuracy and speed, and the limit of its codec
others_ledgers        bytes that other programs count, against bytes sent
scale                 what each method sends with 16 to 65,536 workers
sites                 the DiLoCo family between sites: loss, bytes, seconds
speedups              how often a strategy is faster to a target than all-reduce
stragglers            what one slow or lost worker costs each method
train_1gbit           seconds to a target accuracy on real, slow links
utilisation           the bandwidth that keeps accelerators busy, per method
utilisation_measured  the share of time spent computing on slow links
union_size            selecting entries so that the union of choices is smaller

queue            makes the runs that claims need; runs/ keeps them
notes/           the notes of each claim, in Markdown: setup, columns, limits
framework        what claims share: verdicts, kept runs, workloads, tables
testbed          processes on this machine that exchange over shaped links
"""
