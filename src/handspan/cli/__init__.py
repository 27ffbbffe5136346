"""COMMANDS: what a person types.

Holds:   one file a command; `main.py` has the table of their names, each is loaded when it is used. `door.py` finds the
         gateway that a command asks, or opens one inside the process; `requests.py` and `remote.py` ask it; `render.py`
         and `render_chat.py` are what a terminal shows; `talk.py` and `conversation.py` are a chat.
Imports: gateway, agent, engine, client, skills, models, wire, config, core. A heavy module only through the table in
         `door.py`.
To add:  a file with a click command that uses `ask_gateway`, and its line in the table of `main.py`.
"""
