"""The MCP conformance suite against our server and our client.

`offer.py` has the tools, prompts and resources that the suite asks for, as any program offers them through
`handspan.mcp`. `sdk_fixtures.py` has those that need the SDK itself: sampling, logging, completion and subscriptions,
which we offer nowhere else, and answers that ask for more input. `server.py`, `gateway.py` (the MCP door of a whole
gateway) and `client.py` are the programs that the suite talks to; `suite.py` starts it and reads its report.
`python -m tests.conformance` runs all of it.
"""
