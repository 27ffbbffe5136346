"""THE SCHEMA COMPILER: a tool's JSON Schema in the subset that each model API accepts (SPEC M3).

Holds:   `lowering.py` (read it first: a tool or a toolset for one API), `dialects.py` (what each API accepts, as
         data), `wide.py` and `narrow.py` (the two kinds of subsets), `root.py` (the root as one object), `flatten.py`
         and `references.py` (`allOf` and `$ref`), `shape.py` and `forms.py` (what `narrow.py` writes), `strict.py`
         (limits and nulls of strict mode), `report.py` (the losses).
Imports: models, core.
To add:  an API's subset as a `Dialect` in `dialects.py`, and its line in `lowering.py`.
"""
