"""THE WAY OUT. Every request that leaves this process passes the guard here; nobody else makes an HTTP client.

Holds:   the strict URL parse, the table of addresses, the operator's policy, the dialer that connects to checked
         addresses only, and `NetGuard`, which tools, model adapters and MCP get by constructor.
Imports: config, core. httpx2 and httpcore2 only inside functions (`guard`, `dial`, `faults`).
To add:  a way out takes a `NetGuard` and calls `fetch` or `client`; a new special range is one line in `addresses`.
"""
