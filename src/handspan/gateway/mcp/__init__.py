"""The MCP door: an agent's tools, for any MCP client (SPEC C5).

Holds:   `door.py`, the door and the agent that a request names (read it first); `agent_offer.py`, what clients get: the
         agent's tools through the engine, skills as prompts, artifacts as resources.
Imports: gateway.entry, gateway.http, gateway.parts, engine, mcp, skills, core.
To add:  something that MCP clients can ask for: `handspan/mcp/offer.py` first, then `agent_offer.py`.
"""
