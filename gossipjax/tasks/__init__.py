"""What is learned: a model, a loss and the examples of every worker.

named      the built-in tasks, by name
"""
