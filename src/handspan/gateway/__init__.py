"""DOORS: where everything meets.

Holds:   `app.py`, the only place where all rooms are put together, from the settings.
Imports: everything below. No rules of its own: a door translates, the engine decides.
To add:  a new part of the product is made in `app.py` and handed to whoever needs it.
"""
