"""SUPPLIERS OF TOOLS: sources that keep their tools in the registry while they are open.

Holds:   `builtin.py` (read it first), `plugins.py` (entry points), `folder.py` (the person's own tools, watched),
         `ws/` (tools of devices and chat clients, over a WebSocket), `graph.py` (tools of web pages, each for one run),
         `mcp/` (tools of MCP servers) and `offers.py` (the rules for what a client may offer).
Imports: registry, tools, net, media, wire, config, core. Not the engine: it reaches tools through the registry.
To add:  a file with one class that implements `core/sources.py: ToolSource` and registers under an `Origin` of its own,
         with the `Handling` of its tools; its line in the list of `gateway/app.py`. A source of a connection or of a
         run, such as `ws/` and `graph.py`, is opened with the connection or the run and needs no line.
"""
