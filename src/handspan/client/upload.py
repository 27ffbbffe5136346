"""The upload of a large result to the gateway, as an artifact (ws.md 5.10)."""

from typing import Final
from urllib.parse import urlencode, urlsplit

import msgspec

from handspan.client.address import GatewayPlace
from handspan.client.errors import explain_failure
from handspan.core.errors import ToolError
from handspan.core.late_imports import http_client
from handspan.core.values import strip_invisible
from handspan.wire.rest.artifacts import ArtifactView

_SECONDS: Final = 60.0
_PATH: Final = "/api/artifacts"
_MAX_NAME: Final = 200


def upload(place: GatewayPlace, data: bytes, media_type: str, name: str) -> str:
    """Upload these bytes, and return the id of their artifact. Raises `ToolError` if the gateway refuses. Blocks."""
    parts = urlsplit(place.address.http(_PATH))
    host = parts.hostname or ""
    connection = (
        http_client.HTTPSConnection(host, parts.port, timeout=_SECONDS, context=place.tls)
        if parts.scheme == "https"
        else http_client.HTTPConnection(host, parts.port, timeout=_SECONDS)
    )
    headers = {"Content-Type": media_type} | ({"Authorization": f"Bearer {place.token}"} if place.token else {})
    query = f"?{urlencode({'name': name[-_MAX_NAME:]}, errors='replace')}" if name else ""
    try:
        connection.request("POST", f"{parts.path}{query}", data, headers)
        response = connection.getresponse()
        body = response.read(64 * 1024)
    except (OSError, http_client.HTTPException) as error:
        text = f"The tool ran, but its result could not be uploaded: {explain_failure(parts.geturl(), error)}."
        raise ToolError("network_error", text) from None
    finally:
        connection.close()
    if not 200 <= response.status < 300:
        reason = strip_invisible(body.decode("utf-8", "replace"))[:200]
        text = f"The tool ran, but the gateway did not take its result of {len(data)} bytes: {response.status} {reason}"
        raise ToolError("execution_failed", text)
    try:
        return msgspec.json.decode(body, type=ArtifactView).id
    except msgspec.DecodeError:
        text = f"The tool ran, but {place.address} did not name the artifact of its result: is it a gateway?"
        raise ToolError("execution_failed", text) from None
