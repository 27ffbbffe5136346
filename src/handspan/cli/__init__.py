"""COMMANDS: what a person types.

Holds:   one file a command; `main.py` has the table of their names, each is loaded when it is used; `__main__.py` is
         the console script. Read `door.py` first: `ask_gateway` finds the gateway that runs, or opens the same one
         inside the process; `requests.py` and `remote.py` send its requests, `running.py` says which gateway serves a
         state folder. `render.py`, `render_tool.py` and `render_chat.py` print; `terminal_chat.py` and
         `conversation.py` are a chat, `terminal_questions.py` asks the person; `mcp_relay.py` (with `mcp_headers.py`)
         connects an MCP client at standard input and output to the gateway.
Imports: gateway, bridge, agent, engine, client, provider, models, net, wire, config, core. A heavy module only inside
         the function of `door.py` that needs it.
To add:  a file with a click command that uses `ask_gateway`, and its line in the table of `main.py`.
"""
