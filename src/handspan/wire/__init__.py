"""BYTES <-> MESSAGES: what goes over a wire, read strictly and written plainly.

Holds:   strict JSON, and each protocol in a file or folder named after it: `ws.py`, `graph/`, `rest/`.
Imports: core. No sockets, no clock, no event loop: a wire can be tested with bytes alone.
To add:  one file a protocol; what can't be read is a `WireError` that says where and why.
"""
