"""What is learned: a model, a loss and the examples of every worker.

task            the type `Task`, and what the built-in tasks share
metrics         scores that are sums, or functions of all examples
checks          checks of a task before training
data_checks     whether a loss is finite on examples that may be wrong
gradient_check  whether a loss has a gradient at all
user_functions  turns exceptions of a task's functions into UserErrors
shares          distributes the examples of a task over the workers
images          classification of images
text            prediction of the next byte of a text
linen_models    makes a task from an unchanged Linen model
nnx_models      makes a task from an unchanged NNX model
flax_models     what these two share
named           the built-in tasks, by name
"""
