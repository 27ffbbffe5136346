"""SKILLS: texts that teach a model a way of working, and narrow its toolbox while they are on (SPEC A3).

Holds:   `skills.py`, which skills there are and which may be used (read it first); `folders.py`, where they lie;
         `reading.py` and `file.py`, how one is read (`front_matter.py`, `fields.py`, `text.py`); `use_skill.py`, the
         tool by which a model switches one on.
Imports: tools, wire, core.
To add:  a field of the front matter goes into `file.py`, a folder of skills into `folders.py`.
"""
