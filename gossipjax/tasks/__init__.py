"""What is learned: a model, a loss and the examples of every worker.

task    the type `Task`, and what the built-in tasks share
shares  shares out the examples of a task among the workers
images  classification of pictures
text    prediction of the next byte of a text
named   the built-in tasks, by name
"""
