"""CHANNELS: messages to people on other networks, and from them (SPEC B, `message`).

Holds:   `bus.py`, the `MessageBus`: a bounded queue for each channel, its state, and the Protocols `Channel` and
         `TwoWayChannel` (read it first); `setup.py`, channels from the settings; `telegram.py` with `telegram_api.py`,
         `webhook.py`, `apprise_urls.py` and `page.py`, the channels themselves; `supervisor.py`, which listens again
         when a channel was down. Sessions, questions and the HTTP route are the gateway's.
Imports: net, config, core.
To add:  a class with `deliver` (and `listen`, if people can write there), and its line in `setup.py`.
"""
