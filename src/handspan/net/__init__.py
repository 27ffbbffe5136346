"""OUTGOING REQUESTS: every request that leaves this process passes the guard here. Only this room makes HTTP clients.

Holds:   `guard.py` (read it first: `NetGuard`, which tools, model adapters and MCP get by constructor), `urls.py` (the
         strict parse), `addresses.py` (the table of special addresses), `policy.py` (the operator's rules), `dial.py`
         (connects to checked addresses only), `exchange.py` (request, response, redirects, errors), `text.py`;
         `forward_proxy.py` with `forward_http.py` (the way out for commands in a sandbox).
Imports: config, core. httpx2, httpcore2 and h11 only inside functions (`guard`, `dial`, `exchange`, `forward_*`).
To add:  a part that sends requests takes a `NetGuard` and calls `fetch` or `client`; a new special range is one line
         in `addresses.py`.
"""
