"""Anthropic Messages: `codec.py` (requests; read it first), `blocks.py` (messages), `decoder.py`, `faults.py`."""
