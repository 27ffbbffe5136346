"""Logins of people at MCP servers, with OAuth (SPEC P6, S5).

Holds:   `logins.py`, all logins (read it first); `login.py`, one that has begun; `files.py`, tokens and
         registrations on the disk. `oauth.py` (the login) and `bearer.py` (the tokens
         on each request, and the rules for both) use the MCP SDK: the first server at an address loads them.
Imports: net, config, core.
"""
