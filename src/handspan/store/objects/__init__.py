"""An S3-compatible object storage, for artifacts that are too large for rows of a database.

Holds:   `bucket.py` (put, read, remove), `signature.py` (AWS Signature Version 4).
Imports: config, core, net, and `store/bodies.py`. Requests go through the network guard.
To add:  a request: a method of `Bucket`; `_send` signs it, tries again and explains a refusal.
"""
