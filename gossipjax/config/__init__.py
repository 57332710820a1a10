"""The config boundary: names and arguments turn into functions here only.

resolve    calls a function with the arguments of a config; finds strategies,
           compressors, selections, topologies and links by name
defaults   every key of a config with its default; builders for config files
"""
