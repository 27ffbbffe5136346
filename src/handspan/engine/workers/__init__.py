"""Worker processes for isolated tools: a segfault in a worker is only an error for the engine (SPEC T3).

Holds:   `pool.py`, the workers as the engine uses them (read it first); `main.py`, what runs in the process;
         `messages.py`, what both send to each other; `process_tree.py`, the end of a process with all it started.
Imports: core, and `engine/outcome.py`.
"""
