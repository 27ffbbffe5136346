"""DOORS: where everything meets, and where the world comes in.

Holds:   `app.py`, the house put together from the settings; `gateway.py`, its doors; `server.py`, the port.
         Who comes in: auth, tokens, places, pairing. Conversations: turns, rooms, questions, chat_frames. Clients and
         devices: socket, ws, chat, peers, devices, leftovers. REST: `rest/`, live, metrics, openapi.
Imports: everything below. No rules of its own: a door translates, the engine decides.
To add:  a new part of the product is made in `app.py` or `gateway.py` and handed to whoever needs it.
"""
