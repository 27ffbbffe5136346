"""RUNS OF CLIENTS THAT MAY HAVE TOOLS OF THEIR OWN: begun, suspended at their calls, resumed, stopped (SPEC F1).

Holds:   `runs.py` (read it first), what every door for such clients asks for; `client.py`, the client of a request;
         `results.py`, the results that it brings; `tool_sets.py`, the tools that it has; `asked.py`, the calls that
         wait for it; `lines.py`, the lines of a stream, which may be read again; `wishes.py`, a turn that is as its
         client wishes, with `json_answers.py`; `agents.py`, whom a client may talk to; `attachments.py`, the images and
         files that it sends; `usage.py`, what its run used; `question_lines.py`, what a client is told that can't show
         a question. `chats.py` is over it, for clients that keep their own history: what
         their requests (`entries.py`) mean for the session of their chat (`known_chat.py`, SPEC F3).
         A call: `GraphTool.run` (`sources/graph.py`) returns `Pending` and the turn ends with the reason `pending`;
         the door asks its client for the call, and a later request of that client brings the result. Tools are in the
         registry only while a run of their client is at work.
Imports: gateway.entry, gateway.http, gateway.sessions, agent, engine, sources, registry, models, net, wire, config,
         core. No words of an API: what is refused is an error with its kind, and each door has its own words for it.
To add:  a door for another API is a translator: it reads a request into the values here, and writes the events of the
         run in its own words. `graph/` is one.
"""
