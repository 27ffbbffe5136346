"""What every example needs: where the gateway is, and how a program calls a tool there."""

import argparse
import asyncio
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Coroutine
from typing import Any

from handspan.client import GatewayRefused, GatewayUnreachable


def arguments(about: str) -> argparse.ArgumentParser:
    """`--url`, `--token` and `--check`; the first two from the environment where they are not given."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--url", default=os.environ.get("HANDSPAN_URL", "http://127.0.0.1:42617"))
    parser.add_argument("--token", default=os.environ.get("HANDSPAN_TOKEN", ""))
    parser.add_argument("--check", action="store_true", help="try it out, say what came of it, and end")
    return parser


def run(story: Coroutine[Any, Any, None]) -> None:
    """Run an example as a whole program. A gateway that does not let it in is told in a sentence."""
    try:
        asyncio.run(story)
    except (KeyboardInterrupt, EOFError):
        sys.exit(130)
    except GatewayRefused as error:
        sys.exit(f"{error}\nA token for the examples: export HANDSPAN_TOKEN=$(handspan tokens new examples)")
    except GatewayUnreachable as error:
        sys.exit(str(error))


def show(words: str, end: str = "\n") -> None:
    """Say this to whoever looks."""
    sys.stdout.write(words + end)
    sys.stdout.flush()


async def call(url: str, token: str, tool: str, **args: Any) -> dict[str, Any]:
    """Call a tool as any program can, by REST; the envelope. A call that waits for a person is waited for."""
    answer = await asyncio.to_thread(_request, url, token, f"/api/tools/{tool}/call", {"args": args})
    async with asyncio.timeout(60):
        while answer["status"] == "pending":
            await asyncio.sleep(0.1)
            record = await asyncio.to_thread(_request, url, token, f"/api/calls/{answer['call_id']}")
            answer = record.get("result") or answer
    return answer


def _request(url: str, token: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url.rstrip("/") + path, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            answer: dict[str, Any] = json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            raise SystemExit(f"The gateway said {error.code}: {error.read(500).decode('utf-8', 'replace')}") from None
    return answer
