"""The floor for HTTP: a plain Starlette route on the server that the gateway runs on. It reads JSON and answers JSON.

python -m bench.plain_http PORT BYTES...    answers the n-th request with so many bytes, by turns
"""

import itertools
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def main() -> None:
    """Serve until it is ended."""
    port, *sizes = map(int, sys.argv[1:])
    answers = itertools.cycle([b'"%s"' % (b"x" * (size - 2)) for size in sizes])

    async def answer(request: Request) -> Response:
        await request.json()
        return Response(next(answers), media_type="application/json")

    app = Starlette(routes=[Route("/", answer, methods=["POST"])])
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", loop="uvloop", http="httptools", ws="none")


if __name__ == "__main__":
    main()
