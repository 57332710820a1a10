"""The config boundary: keys, values, and names that become functions.

training/optimizer.py, training/schedules.py and executors.py resolve names of
their own.

arguments            calls functions with the arguments of a config
in_python_arguments  the same for functions that are called from Python
parts                arguments that are a name with arguments of its own
given_arguments      the arguments of a strategy that are not defaults, as text
own_functions        functions of the user's own, by the name 'module:function'
optimizers           the optimizers that a config names
resolve              the tasks, strategies and links that a config names
variants             what each variant of a comparison changes
variant_checks       names and keys of variants that are refused
value_types          the type of every key
ranges               the range and unit of every numeric key
defaults             every key of a config with its default; builders
"""
