"""Tools of devices and chat clients, over a WebSocket: `tools.py` keeps them registered, `calls.py` asks them."""
