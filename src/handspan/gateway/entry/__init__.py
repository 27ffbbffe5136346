"""ENTRY: which requests and connections are let in.

Holds:   `auth.py`, which admits or refuses a request (read it first); `host_policy.py`, Host and Origin; `tokens.py`,
         where a request may have its token; `pairing.py`, pairing codes, sign-in links and QR codes; `rate_limit.py`,
         which slows down a client that guesses; `operator_token.py`, the operator's own token.
Imports: gateway.http, net, config, core. Nothing of the doors.
To add:  a new way to authenticate goes into `auth.py`, before the token is looked up.
"""
