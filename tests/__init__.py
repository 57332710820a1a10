"""The tests.

laws     what every strategy obeys, and rules about the code itself
unit     one module at a time
system   whole programs: processes, kills, browsers, real links, real data
support  what several tests use
"""
