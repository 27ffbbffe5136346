"""A program behind a webhook channel: it passes on what you type, and prints what the agent answers.

It needs nothing of Handspan, only HTTP and HMAC; `docs/channels.md` has the form. In the settings of the gateway:

    [channels.office]
    type = "webhook"
    url = "http://127.0.0.1:8099/"
    secret = "env:OFFICE_SECRET"        # the same variable for this program
    allow = ["me"]

    OFFICE_SECRET=… python -m examples.webhook "What time is it in Tokyo?"

It ends with 0 when the answer has come.
"""

import argparse
import hashlib
import hmac
import json
import os
import queue
import sys
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


def signature(secret: str, moment: str, body: bytes) -> str:
    """Return the signature of a body sent at this moment (seconds since 1970)."""
    return "v1=" + hmac.new(secret.encode(), moment.encode() + b"." + body, hashlib.sha256).hexdigest()


def pass_on(gateway: str, channel: str, secret: str, message: dict[str, str]) -> None:
    """Sign a message of a person and give it to the gateway. Raises `urllib.error.URLError` when it is not taken."""
    body, moment = json.dumps(message).encode(), str(int(time.time()))
    headers = {"X-Handspan-Timestamp": moment, "X-Handspan-Signature": signature(secret, moment, body)}
    with urllib.request.urlopen(urllib.request.Request(f"{gateway}/channels/{channel}", body, headers), timeout=60):
        pass


def listen(secret: str, port: int) -> "tuple[ThreadingHTTPServer, queue.Queue[Any]]":
    """Return a server for the gateway's messages, and the queue of those whose signature is right."""
    received: queue.Queue[Any] = queue.Queue()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            moment, given = self.headers.get("X-Handspan-Timestamp", ""), self.headers.get("X-Handspan-Signature", "")
            is_good = hmac.compare_digest(given, signature(secret, moment, body))
            is_good = is_good and moment.isdecimal() and abs(time.time() - int(moment)) <= 300
            self.send_response(204 if is_good else 401)
            self.end_headers()
            if is_good:
                received.put(json.loads(body))

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    Thread(target=server.serve_forever, daemon=True).start()
    return server, received


def main(words: list[str] | None = None) -> int:
    """Ask, wait for the answer, and print it."""
    parser = argparse.ArgumentParser(prog="python -m examples.webhook")
    parser.add_argument("text", help="what to say to the agent")
    parser.add_argument("--gateway", default="http://127.0.0.1:42617", help="the gateway's address")
    parser.add_argument("--channel", default="office", help="the name of the channel")
    parser.add_argument("--port", type=int, default=8099, help="where this program listens")
    given = parser.parse_args(words)
    secret = os.environ.get("OFFICE_SECRET", "")
    if not secret:
        print("Set OFFICE_SECRET to the secret of the channel.", file=sys.stderr)  # noqa: T201 - a program for a terminal
        return 2
    server, received = listen(secret, given.port)
    try:
        pass_on(given.gateway, given.channel, secret, {"sender_id": "me", "content": given.text})
        print(received.get(timeout=120)["content"])  # noqa: T201 - the same
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(500).decode("utf-8", "replace")
        print(f"The gateway refused the message ({error.code}): {said}", file=sys.stderr)  # noqa: T201 - the same
        return 1
    except urllib.error.URLError as error:
        print(f"No gateway answers at {given.gateway}: {error.reason}", file=sys.stderr)  # noqa: T201 - the same
        return 1
    finally:
        server.shutdown()
        server.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
