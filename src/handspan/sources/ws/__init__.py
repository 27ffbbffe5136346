"""Tools of devices and chat clients, over a WebSocket.

Holds:   `tools.py` keeps the tools registered, `calls.py` sends their calls, `outcome.py` reads the answers,
         `questions.py` asks the person at the device, `logins.py` lets a call wait for a login.
Imports: registry, wire, core.
To add:  a capability (ws.md 1.9): its meaning for a call in `calls.py`.
"""
