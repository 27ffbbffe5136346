"""COMMANDS: what a person types.

Holds:   one file a command; `main.py` has the table of their names, each is loaded when it is used; `__main__.py` is
         the console script. Read `door.py` first: `ask_gateway` finds the gateway that runs, or opens one
         inside the process; `requests.py` has the requests to either, `remote.py` sends them to the one, `inside.py`
         to the other; `running.py` says which gateway serves a state folder, `trust.py` which certificate it has.
         `late.py` is the table of what is imported when a command needs it. `render.py`, `render_tool.py` and
         `wrapping.py` print, `session_text.py` finds a session and makes a document of it, `json_errors.py` JSON of an
         error, `progress_line.py` shows the progress of long work; `terminal_questions.py` asks the person, who may
         change a call (`edit_arguments.py`, `json_editor.py`); `ctrl_c.py` has the one rule for that key; `names.py`
         lists the names that shells (`completion.py`) and the chat complete; `mcp_serve.py` (with `mcp_relay.py` and
         `mcp_headers.py`) connects an MCP client at standard input and output to it. Rooms: `chat/`, `device/`.
Imports: gateway, bridge, agent, engine, client, provider, models, net, media, wire, config, core. What is slow to load
         and not always needed is a row in `late.py`.
To add:  a file with a click command that uses `ask_gateway`, and its line in the table of `main.py`.
"""
