"""LOG: what `handspan serve` writes about its work, for people and for programs that collect logs.

Holds:   `setup.py`, the one set-up of logging; `lines.py`, a record as a line of text or of JSON; `secrets.py`, which
         hides secrets in lines; `writer.py`, the thread that writes them; `events.py`, lines about calls, turns and
         questions, made of the bus's events; `requests.py`, a line for each HTTP request (`--verbose`).
Imports: config, core.
To add:  a line about something that happens: `logging.getLogger(__name__)` where it happens, with `extra={…}` for the
         fields of the JSON form. What happens for every call is counted in `events.py`, never formatted on its way.
"""
