"""FIGURES: how fast we are against the floor and the peers, as ratios taken in one run.

Holds:   one file a figure family; `__main__.py` runs them all, prints the table and writes results/latest.json.
To add:  a function that gives `Figure`s, and its line in `__main__.py`. Never a timed test: speed lives here.
"""
