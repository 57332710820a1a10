"""One file per experiment; `python run.py --config=configs/NAME.py` runs it."""
