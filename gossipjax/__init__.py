"""Communication strategies of data-parallel training, compared."""
