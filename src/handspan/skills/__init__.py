"""SKILLS: texts that teach a model a way of working, and narrow its toolbox while they are on (SPEC A3).

Holds:   `skills.py`, which skills exist and which may be used (read it first); `folders.py`, where they lie, and the
         reader; `file.py`, one skill from its file, with `front_matter.py` (its fields; `fast_front_matter.py` reads
         simple ones without YAML) and `text.py` (cleaning, filling in variables); `use_skill.py`, the tool by which a
         model switches a skill on.
Imports: tools, wire, core.
To add:  a field of the front matter goes into `file.py`, a folder of skills into `folders.py`.
"""
