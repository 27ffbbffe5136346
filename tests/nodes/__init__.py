"""Several gateways as one, with real processes and real engines (SPEC K)."""
