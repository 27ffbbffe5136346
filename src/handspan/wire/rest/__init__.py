"""REST: the requests and answers of `/api/…`, declared once for the gateway, the commands and programs.

Holds:   frozen Structs, one file a subject; `fields.py` has the types of fields that several subjects share. The
         Structs decide what the gateway decodes and refuses.
Imports: core.
To add:  a Struct in the file of its subject, then the route in `gateway/rest/`.
"""
