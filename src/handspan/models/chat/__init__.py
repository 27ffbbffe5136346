"""OpenAI Chat Completions, and the many servers that speak it.

Holds: `codec.py` (read it first), `decoder.py` (answers), `calls.py` (tool calls in pieces, and those that the server
refused), `text_calls.py` (tool calls that a model prints as text), `servers.py` (how servers differ).
"""
