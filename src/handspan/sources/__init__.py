"""WHERE TOOLS COME FROM: living suppliers that keep their tools in the registry right while they are open.

Holds:   built-ins, plugins (entry points) and the person's own tools folder; tools of devices (`ws.py`), asked over a
         line, and of web pages (`browser.py`), lent to a run; `offers.py`, what both may bring.
Imports: registry, tools, store, net, wire, config, core. Not the engine: it reaches tools through the registry.
To add:  a file with one class that has `open` and `close`; register with an `Origin` of its own.
"""
