"""Tools of MCP servers: programs on this computer, and addresses on the network (SPEC C).

Holds:   `connection.py`, one server with its task (read it first); `opening.py`, how a link to it is opened;
         `servers.py`, all of them, changed at run time; `tools.py`, what a server's tools, resources and prompts are
         for us; `process.py` and `cleaner.py`, the processes of servers and their end; `http_limits.py`, what holds for
         all requests to an address; `sharing.py`, a program that one node of several runs; `logins/`, the logins of
         people; `sdk.py`, `contents.py`, `transports.py`, `server_answers.py` and `logins/oauth.py`, the only ones that
         import the MCP SDK (with `bearer.py`): the first server loads them.
Imports: registry, net, config, core.
"""
