"""Whole programs: processes, kills, browsers, real links, real data."""
