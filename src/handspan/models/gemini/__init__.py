"""Google Gemini: `codec.py` (requests; read it first), `decoder.py` (answers), `faults.py` (errors)."""
