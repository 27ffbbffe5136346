"""OpenAI Chat Completions, and the many servers that speak it.

Holds: `codec.py` (read it first), `decoder.py` (answers), `calls.py` (tool calls in pieces), `text_calls.py`
(tool calls that a model prints as text), `failed_calls.py` (those that the server refused),
`servers.py` (how servers differ).
"""
