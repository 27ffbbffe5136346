"""SETTINGS: one typed value from file, environment and command line; every error names its source, key and remedy.

Holds:   the settings as plain data (settings), where they come from and in which order (load), TOML and JSON
         (formats), reading them against their types with all errors at once (check, forms, words);
         files that only their owner may read (private_files).
Imports: core. Settings are below the rooms they are for: who needs a policy or an agent makes it from this data.
To add:  a field with type, default and docstring in settings.py; file, environment and flags then know it,
         and `make docs` writes it to docs/settings.md.
"""
