"""OPENAI'S DOOR: our agents as models, for every client that speaks OpenAI's API (SPEC F2, F3, F6).

Holds:   `door.py` with the table of routes (read it first); `envelope.py`, errors in OpenAI's form; `request.py`, a
         request and what its route uses; `models.py`, agents as models; `content.py` and `chat_request.py` read a
         request; `chat.py` answers it, and `running.py` waits for its run; `chunks.py` writes what is sent; `teller.py`
         turns the events of a run into text, thinking and comments; `usage.py` adds up what the rounds used.
         `responses.py` is the responses API, with `response_request.py` and `response_events.py`.
Imports: gateway.http, gateway.parts, gateway.runs, agent, sources, registry, models, net, wire, core. No rules of its
         own: runs and chats are those of `gateway/runs/`.
To add:  a field of a request in `wire/openai/`, what it means in `chat_request.py`.
"""
