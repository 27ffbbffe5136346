"""OPENAI'S API ON THE WIRE: the bodies of requests as they come, and of answers as they go (SPEC F2).

Holds:   `reading.py` reads bodies and names what is wrong, and what is not known; `chat.py` is Chat Completions,
         `responses.py` the request of the responses API,
         `errors.py` the form of errors, `models.py` the list of models.
Imports: core. The package `openai` is the authority on all of it, and judges it in `tests/gateway/openai`.
To add:  a field of a request is a field of its Struct: one that is no field is named in a header and ignored.
"""
