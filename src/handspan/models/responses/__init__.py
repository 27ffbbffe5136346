"""OpenAI Responses: `codec.py` (requests; read it first) and `decoder.py` (answers)."""
