"""What several tests use.

datasets   marks of tests that read data sets which no package ships
laws       what every strategy obeys
program    run.py as a process
together   what one of several processes computes, for a comparison
wired      what one of several processes sends over its network interface
workdirs   workdirs with records of one's choice
"""
