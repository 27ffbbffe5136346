"""LLM ADAPTERS: one folder an API, and the models that need none.

Holds:   `model.py` (the Protocols; read it first), `choice.py` (which model answers), a codec for each wire format
         (`chat/`, `responses/`, `anthropic/`, `gemini/`; they share `openai/`, `json_values.py` and `images.py`),
         `http.py`, which runs any codec over the network guard, `schema/` (the compiler of tools' schemas), and
         `offline/` and `scripted.py`, which need no network.
Imports: net, config, core.
To add:  a codec in a folder named after the API, its line in the table of `choice.py`, recorded exchanges as tests.
"""
