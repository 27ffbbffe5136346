"""CHANNELS in the gateway: what people write on other networks becomes turns, and answers and questions go back.

Holds:   `inbox.py`, who may write, and the way of a message that came (read it first); `chats.py`, one worker for each
         chat: a turn, then its answer; `held_messages.py`, which of several nodes answers a message; `questions.py`,
         questions in chats, with `answers.py`, what a word or a button means; `delivery.py`, which chats the tool
         `message` may write to.
         Before each part of an answer goes out, that is stored: a part that may have arrived is not sent again.
Imports: gateway.entry, gateway.sessions, agent, channels, wire, core. The networks are in `channels/`.
To add:  a command that people can write (`/new`) goes into `inbox.py`; a network into `channels/`.
"""
