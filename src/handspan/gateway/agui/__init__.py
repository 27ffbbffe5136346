"""AG-UI'S DOOR: our agents for CopilotKit and every other client that speaks AG-UI 1.0 (SPEC F4).

Holds:   `door.py` with the routes, and `request.py`, a request and what it uses (read them first); `chat_request.py`
         reads the input of a run; `run.py` begins it, tells it and ends it; `teller.py` turns the events of a run into
         events of AG-UI; `client_thread.py` is the conversation as the client should have it; `interrupts.py` are
         questions and their answers; `envelope.py` says which error is which.
Imports: gateway.http, gateway.parts, gateway.runs, agent, sources, net, wire, core. No rules of its own: runs and chats
         are those of `gateway/runs/`, who may answer a question says `core/question_rights.py`.
To add:  an event of AG-UI has its Struct in `wire/agui/events.py`, and its case in `teller.py`.
"""
