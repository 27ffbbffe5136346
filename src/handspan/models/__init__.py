"""LLM ADAPTERS: one folder an API, and the models that need none.

Holds:   the seam (`model.py`); a pure codec for each wire format (chat, responses, anthropic, gemini: bytes and events,
         no sockets); `http.py`, which runs any of them over the network guard; the schema compiler (`schema/`);
         `offline/` and `scripted.py`, which need no network.
Imports: net, config, core.
To add:  a codec in a folder named after the API, its line in the table of `choice.py`, recorded exchanges as tests.
"""
