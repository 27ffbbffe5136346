"""What goes wrong, on purpose and in numbers: `make chaos` prints the figures, `make test` runs the short forms.

Holds:   one scenario a file (`storm`, `kills`, `hostile`, `sigterm`), each a function that gives figures; `witness.py`, which
         knows what was promised and finds what broke it; `machine.py`, a state machine over the wire.
To add:  a function of a folder, a scale and a seed that gives figures, its line in `__main__.py`, its short form as a test.
"""
