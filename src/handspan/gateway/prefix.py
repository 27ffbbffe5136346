"""The path that everything is below, for a gateway behind a reverse proxy; and one slash where clients put two."""

from starlette.types import ASGIApp, Receive, Scope, Send

from handspan.gateway.http.refusals import Refusal, send_refusal


class PathPrefix:
    """Gives the application what is below the prefix, as its `root_path`; there is nothing beside it."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request or connection."""
        path: str = scope["path"]
        if path != self._prefix and not path.startswith(f"{self._prefix}/"):
            text = f"There is nothing at this address: this gateway is below {self._prefix!r}."
            await send_refusal(Refusal(404, "not_found", text), scope, send)
            return
        await self._app({**scope, "root_path": self._prefix}, receive, send)


def with_one_slash(scope: Scope) -> Scope:
    """The same, for a client whose base address ends with a slash: it asks for `//v1/…`, and means `/v1/…`."""
    root, path = scope.get("root_path", ""), scope["path"]
    if not path.startswith(f"{root}//"):
        return scope
    raw: bytes = scope.get("raw_path") or b""
    begin = root.encode()
    if raw.startswith(begin + b"//"):  # the routes read this one
        raw = begin + b"/" + raw.removeprefix(begin).lstrip(b"/")
    return {**scope, "path": f"{root}/{path.removeprefix(root).lstrip('/')}", "raw_path": raw}
