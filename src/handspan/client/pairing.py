"""A token for a pairing link: what a QR code of the gateway leads to (SPEC S5)."""

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from handspan.client.address import Address
from handspan.client.errors import GatewayRefused, GatewayUnreachable, explain_failure
from handspan.core.late_imports import http_client
from handspan.core.values import strip_invisible

if TYPE_CHECKING:
    import ssl

_SECONDS: Final = 30.0
_PAGES: Final = ("/device", "/pair")


class PairedGateway(msgspec.Struct, frozen=True):
    """The gateway of a link, and the token that it gave. Keep the token: the link works once."""

    url: str
    token: str

    def __repr__(self) -> str:
        """Without the token: a repr ends up in logs."""
        return f"PairedGateway(url={self.url!r})"


class _Token(msgspec.Struct, frozen=True):
    token: str


def read_link(link: str) -> tuple[str, str]:
    """Return the gateway's address and the code of a pairing link. Raises `ValueError` for another text."""
    parts = urlsplit(link)
    code = "".join(parse_qs(parts.fragment).get("code", []))
    page = next((page for page in _PAGES if parts.path.rstrip("/").endswith(page)), None)
    if not code or page is None or parts.query:
        raise ValueError(
            "this is no pairing link: it looks like 'https://192.168.1.7:42617/device#code=1234-5678-9012'"
        )
    return str(Address(f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix(page)}")), code


def pair(
    link: str, label: str = "", scopes: tuple[str, ...] = ("device",), tls: "ssl.SSLContext | None" = None
) -> PairedGateway:
    """Exchange a pairing link for a token with these scopes. Blocks.

    Raises `ValueError` for a text that is no link, `GatewayUnreachable`, and `GatewayRefused` for a code that is used
    or too old.
    """
    url, code = read_link(link)
    parts = urlsplit(f"{url}/pair")
    host = parts.hostname or ""
    connection = (
        http_client.HTTPSConnection(host, parts.port, timeout=_SECONDS, context=tls)
        if parts.scheme == "https"
        else http_client.HTTPConnection(host, parts.port, timeout=_SECONDS)
    )
    body = msgspec.json.encode({"code": code, "label": label, "scopes": scopes})
    try:
        connection.request("POST", parts.path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = response.read(64 * 1024)
    except (OSError, http_client.HTTPException) as error:
        raise GatewayUnreachable(f"{url} does not answer: {explain_failure(url, error)}") from None
    finally:
        connection.close()
    if response.status != 200:
        reason = strip_invisible(data.decode("utf-8", "replace"))[:300]
        raise GatewayRefused(response.status, f"{url} refuses the code: {reason}")
    return PairedGateway(url, msgspec.json.decode(data, type=_Token).token)
