"""REST: the requests and answers of `/api/…`, declared once for the gateway, the commands and programs.

Holds:   frozen Structs, one file a subject. What a Struct says of its fields is what the gateway decodes and refuses.
Imports: core.
To add:  a Struct in the file of its subject, then the route in `gateway/rest/`.
"""
