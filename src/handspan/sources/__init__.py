"""WHERE TOOLS COME FROM: living suppliers that keep their tools in the registry right while they are open.

Holds:   built-ins, plugins (entry points) and the person's own tools folder; tools of devices (`ws/`), asked over a
         line, and of web pages (`graph.py`), lent to a run; `offers.py`, what both may bring.
Imports: registry, tools, net, wire, config, core. Not the engine: it reaches tools through the registry.
To add:  a file with one class that fills `core/sources.py: ToolSource` and registers under an `Origin` of its own, with
         the `Handling` of its tools; its line in the list of `gateway/app.py`. What comes and goes with a connection
         or a run, as the tools of devices and pages do, is opened by that and needs no line.
"""
