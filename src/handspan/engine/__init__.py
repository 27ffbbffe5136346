"""THE WAY OF ONE CALL: from a name and arguments to exactly one result.

Holds:   `engine.py`, the stations in their order (read it first), and a file for each station: `caller.py` (find the
         tool, read its arguments), `hooks.py` with `hook_thread.py`, `builtin_hooks.py` and `audit_log.py`,
         `policy.py`, `consent.py` with `questions.py` and `changes.py` (consent of a person), `runner.py` (the code),
         `result_limit.py` (size of a result), `results.py` (the result in the ledger, and its event).
         Below the runner: `concurrency.py` (slots for calls at once), `deadline.py` with `alarm.py` (timeouts),
         `threads.py`, `workers/` (processes), `outcome.py` (output or error as a result), `watchdog.py` (tools that
         block).
         `records.py`: a call's record while it runs, and calls whose outcome comes later.
Imports: registry, wire, config, core. Not sources: tools reach it through the registry.
To add:  a station goes into the order of SPEC E1, in `engine.py`, and nowhere else.
"""
