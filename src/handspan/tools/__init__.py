"""BUILT-INS: the tools that come with Handspan, and what keeps their effects inside of the workspace.

Holds:   one file for each family of tools: `clock.py`, `files.py`, `memory.py`, `web.py`, `web_search.py`,
         `message.py`, `artifact.py`, `ask.py`, `search/`, `shell/`.
         `result_sources.py`: where the words of their results come from.
         Below the file tools: `workspace.py` (read it first), which uses `paths.py`, `directories.py`, `new_file.py`;
         `text_pages.py` and `decoding.py` read texts, `media_files.py` images and PDF.
         Below the shell tools: `sandbox.py` (with `bubblewrap.py`, `mounts.py`, `seccomp.py`), `processes.py`,
         `output.py`, `shell/policy.py`.
         Below the web tools: `markdown.py`. What is imported when a tool is used: `late.py`.
Imports: net, media, core. Not the registry, not the engine: a tool knows nothing of its caller.
To add:  a class with `spec` and `run` in the file of its family, and its line in `sources/builtin.py`.
         The spec is written by hand (`parameters` of `core/tool.py`): `@tool` reads a signature with pydantic, and
         `handspan call` would take two thirds more instructions to start.
"""
