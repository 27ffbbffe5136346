"""BUILT-INS: the tools that come with the house, and what contains them.

Holds:   one file a family of tools: clock, files, memory, shell, web, message, artifact.
         What they stand on: workspace (paths, beneath, listings, decoding, refusals), the sandbox (mounts, seccomp,
         processes), the command policy (`shell/`), markdown.
Imports: net, core. Not the registry, not the engine: a tool knows nothing of its caller.
To add:  a class with `spec` and `run` in a file of its family, and its line in `sources/builtin.py`.
"""
