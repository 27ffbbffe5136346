"""THE GATE: who comes in, and from where.

Holds:   `auth.py`, which admits or refuses a request; `places.py`, Host and Origin; `tokens.py`, where a token may
         stand; `pairing.py`, codes and links; `tries.py`, which slows down who guesses; the operator's own token.
Imports: gateway.http, net, config, core. Nothing of the doors.
To add:  a new way to prove who one is goes into `auth.py`, before the token is looked up.
"""
