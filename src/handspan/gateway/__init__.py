"""DOORS: where everything meets, and where the world comes in.

Holds:   `composition.py`, all parts put together from top to bottom (read it first); `parts.py`, the one bag of them,
         which every door gets, and what a door gives; `gateway.py`, how all of it opens, works and closes; `ws.py`, the
         door of clients and devices; `events.py`, what follows from each event; `app.py`, what also works without
         doors; `one_node.py`, a gateway that is alone; `default_model.py` and `model_choices.py`, which models answer;
         `reloading.py`; `stores.py`, the database that the settings choose; `inside.py`, the gateway for one command of
         this process, without a port, with `inside_chat.py`, its conversations. Rooms: `serving/` (the port), `entry/`
         (which requests are let in), `http/` (the kit of all doors for HTTP), `sessions/` (what waits for a person or a
         client), `clients/` (WebSockets and devices), `channels/` (people on other networks), `rest/` (HTTP for
         programs and the page), `runs/` (runs of clients that may have tools of their own), `graph/` (such runs for web
         pages), `openai/` (such runs for clients of OpenAI's API), `agui/` (for clients of AG-UI), `ui_stream/` (for
         pages of the AI SDK), `mcp/` (tools for MCP clients), `nodes/` (several gateways as one), `log/` (what is
         written about all that).
Imports: agent, engine, sources, mcp, channels, skills, registry, tools, models, store, bus, net, media, wire, config,
         core. No rules of its own: a door translates, the engine decides.
To add:  a new part of the product is made in `composition.py`, with what it needs given to its constructor, and has
         its field in `GatewayParts`. A door for HTTP is a module with `open_door(parts) -> Door` and its line in the
         table of `gateway.py`.
"""
