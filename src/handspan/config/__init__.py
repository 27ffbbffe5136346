"""SETTINGS: one typed value from file, environment and command line; every error names its source, key and remedy.

Holds:   `settings.py` (every setting as plain data; read it first) with its large sections in `tool_settings.py`,
         `gateway_settings.py` and `store_settings.py`, and `kinds.py` (the types of values); `load.py` (where settings
         come from, in which order), `formats.py` (TOML and JSON), `check.py` (reads values against their types and
         collects all errors), `setting_types.py` (what a type asks for, and its words in errors), `listing.py` (the
         settings in force as a person may see them), `watch.py` (tells when a file of the settings changes),
         `mcp_file.py` and `model_file.py` (MCP servers and models that a person added); beside them `private_files.py`
         (files that only their owner may read), `rotated_file.py` (such a file that begins anew when it is full) and
         `entry_points.py` (what installed packages bring).
Imports: core. Settings are plain data: the room that needs a policy or an agent makes it of them.
To add:  a field with type, default and docstring in its section; file, environment and flags know it then,
         and `make docs` writes it to docs/settings.md.
"""
