"""One PostgreSQL database, by its address (SPEC K1).

Holds:   `store.py` (the whole store; read it first), `connections.py` (how a connection is made, and what its errors
         mean), `database.py` (reads) and `writer.py` with `batches.py` (writes: many rows in one statement),
         `leases.py` and `node_leases.py` (which processes and nodes live, by the database's clock) with
         `lease_connection.py` (their locks), `nodes.py` (nodes and their clients), `documents.py` (what SQLite's store
         has as small files), `artifacts.py` (rows of chunks, and the bucket's rows), `move.py` with
         `move_artifacts.py` (from the state folder into the database), `migrations.py` (what it alone has in the
         tables).
Imports: config, core, net, the files beside this folder, asyncpg. Nothing imports this room without `store.url`.
To add:  a table: its step in `tables/migrations.py`. A frequent write: its statement for many rows in `batches.py`.
"""
