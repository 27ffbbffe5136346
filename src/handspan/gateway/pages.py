"""The page's bundle is served here: files of the page at `/`, of the TypeScript SDK, and the example pages.

They are part of the package (`handspan/assets`); `scripts/web-build` and `scripts/sdk-assets` write them there.
"""

import gzip
import hashlib
import re
from base64 import b64encode
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from starlette.types import Receive, Scope, Send

from handspan.gateway.entry.host_policy import header_of
from handspan.gateway.http.refusals import Header, Refusal, send_refusal, send_whole
from handspan.gateway.parts import Door, GatewayParts

_ASSETS: Final = Path(__file__).parents[1] / "assets"
_PAGE: Final = "index.html"
_DEVICE: Final = "device.html"
"""The page that makes a phone a device, at `/device`."""
_WORKER: Final = "worker.js"
"""The page's service worker, which has a policy of its own: it asks this gateway, and no other."""
_KINDS: Final = {
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".png": b"image/png",
    ".webmanifest": b"application/manifest+json",
}
_IS_PATH: Final = re.compile(r"[a-z0-9_]{1,64}(/[a-z0-9_]{1,64}){0,8}(/|\.js|\.css|\.html|\.png|\.webmanifest)?|")
_VARY: Final = (b"vary", b"Accept-Encoding")
_INLINE: Final = re.compile(rb"<script[^>]*>(.+?)</script>", re.DOTALL)


def open_door(parts: GatewayParts) -> Door:
    """Return the door for files. It needs no part of the gateway."""
    return Door(_serve_file)


async def _serve_file(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one file: whole, compressed, or not at all if the browser has it."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    if scope["method"] not in ("GET", "HEAD"):
        await send_refusal(Refusal(405, "bad_request", "Files can only be read: use GET."), scope, send)
        return
    if _is_folder(path):
        folder = f"{scope.get('root_path', '')}{path}/".encode("latin-1")
        await send_whole(send, 308, [(b"location", folder)])
        return
    found = _file(path)
    if found is None:
        await send_refusal(Refusal(404, "not_found", f"There is no file {path[:100]!r}."), scope, send)
        return
    body, headers = found
    etag = dict(headers)[b"etag"]
    if (header_of(scope, b"if-none-match") or "").encode("latin-1") == etag:
        await send_whole(send, 304, headers)
    elif "gzip" in (header_of(scope, b"accept-encoding") or ""):
        await send_whole(send, 200, [*headers, (b"content-encoding", b"gzip")], _compress(body))
    else:
        await send_whole(send, 200, headers, body)


def _is_folder(path: str) -> bool:
    """Whether the path is a folder without its slash: relative addresses in its page need the slash."""
    name = path.removeprefix("/")
    is_path = path != "/" and not name.endswith("/") and _IS_PATH.fullmatch(name) is not None
    return is_path and (_ASSETS / name / _PAGE).is_file()


@lru_cache(maxsize=64)
def _file(path: str) -> tuple[bytes, list[Header]] | None:
    """Return the file's content and headers; for a folder, those of its page. Return None for other paths."""
    name = path.removeprefix("/")
    if not _IS_PATH.fullmatch(name):
        return None
    file = _ASSETS / (_DEVICE if name == "device" else f"{name}{_PAGE}" if name.endswith("/") or not name else name)
    kind = _KINDS.get(file.suffix)
    if kind is None or not file.is_file():
        return None
    body = file.read_bytes()
    etag = b'"%s"' % hashlib.sha256(body).hexdigest()[:32].encode()
    headers = [(b"content-type", kind), (b"cache-control", b"no-cache"), (b"etag", etag), _VARY]
    if file.suffix == ".html":
        headers.append((b"content-security-policy", _policy(body)))
    elif name == _WORKER:
        headers.append((b"content-security-policy", b"default-src 'none'; connect-src 'self'"))
    return body, headers


_compress: Final = lru_cache(maxsize=64)(partial(gzip.compress, mtime=0))


def _policy(page: bytes) -> bytes:
    """Return a policy that allows only the scripts and styles in the page itself and those of this gateway."""
    styles = b"'self' 'unsafe-inline'" if b"<style" in page else b"'self'"
    scripts = b" ".join(b"'sha256-%s'" % b64encode(hashlib.sha256(one).digest()) for one in _INLINE.findall(page))
    return (
        b"default-src 'none'; script-src 'self' %s; style-src %s; img-src 'self' data: blob:; media-src 'self' blob:; "
        b"connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
        b"frame-ancestors 'none'" % (scripts, styles)
    )
