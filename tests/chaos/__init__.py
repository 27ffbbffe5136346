"""What goes wrong, on purpose and in numbers: `make chaos` prints the figures, `make test` runs the short forms.

Holds:   one scenario a file (`storm`, `kills`, `sigterm`, `hostile`, `walks`), each a function that gives figures;
         `witness.py`, which finds what broke a promise about calls; `machine.py`, a state machine over the wire.
To add:  a function of a folder, a scale and a seed that gives figures; its line in `__main__.py`; its short form in
         `test_scenarios.py`.
"""
