"""What is done with runs: comparisons, and one file per claim."""
