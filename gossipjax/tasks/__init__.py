"""What is learned: a model, a loss and the examples of every worker.

task    the type `Task`, and what the built-in tasks share
metrics scores that are sums, or functions of all examples
checks  checks of a task before training
data_checks  whether a loss is finite on examples that may be wrong
shares  shares out the examples of a task among the workers
images  classification of pictures
text    prediction of the next byte of a text
flax_models  tasks from models of Flax as they are
named   the built-in tasks, by name
"""
