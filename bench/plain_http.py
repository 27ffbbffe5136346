"""The floor for HTTP: a plain Starlette route on the server that the gateway runs on. It reads JSON and answers JSON.

python -m bench.plain_http PORT FILE BYTES...

It answers the n-th request with so many bytes, by turns. With a FILE, other than "", a row is on the disk before each
answer: the least that anybody has to do who keeps what was asked.
"""

import itertools
import json
import sqlite3
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def main() -> None:
    """Serve until it is ended."""
    kept = _kept(sys.argv[2]) if sys.argv[2] else None
    port, *sizes = map(int, (sys.argv[1], *sys.argv[3:]))
    answers = itertools.cycle([b'"%s"' % (b"x" * (size - 2)) for size in sizes])

    async def answer(request: Request) -> Response:
        body = await request.body()
        json.loads(body)
        if kept is not None:
            kept.execute("INSERT INTO kept VALUES (?)", (body,))
        return Response(next(answers), media_type="application/json")

    app = Starlette(routes=[Route("/", answer, methods=["POST"])])
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", loop="uvloop", http="httptools", ws="none")


def _kept(file: str) -> sqlite3.Connection:
    """A database that writes as the store does."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE kept (body BLOB)")
    return connection


if __name__ == "__main__":
    main()
