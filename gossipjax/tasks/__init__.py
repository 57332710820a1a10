"""What is learned: a model, a loss and the examples of every worker.

task    the type `Task`, and what the built-in tasks share
metrics scores that are sums, or functions of all examples
checks  checks of a task before training
data_checks  whether a loss is finite on examples that may be wrong
gradient_check  whether a loss has a gradient at all
user_functions  what functions of a task raise, as sentences
shares  shares out the examples of a task among the workers
images  classification of pictures
text    prediction of the next byte of a text
linen_models  a task from a model of Linen as it is
nnx_models    a task from a model of NNX as it is
flax_models   what these two share
named   the built-in tasks, by name
"""
