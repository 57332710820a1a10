"""The tests.

laws     what every strategy obeys, and rules about the code itself
unit     one module at a time
system   whole programs: processes, kills, browsers, real links, real data
support  what several tests use
campaign faults, one per seed, and their verdicts

Tiers. `python -m pytest` runs the default tier: no download, no root, no
browser. Markers hold the rest:

system      all of tests/system, except tests that are marked `smoke`
exhaustive  more cases of the laws, and slow checks of single modules

`python -m pytest -m ''` runs all tiers, `-m system` one. A path runs all tests
there, of any tier: `python -m pytest tests/system/resume_test.py`; `-n 0` runs
them in this process, which is faster for few tests.
"""
