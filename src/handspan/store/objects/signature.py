"""The signature that S3-compatible storages ask for: AWS Signature Version 4, in the header `authorization`."""

import hashlib
import hmac
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from msgspec import Struct

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
EMPTY_DIGEST: Final = hashlib.sha256().hexdigest()


class SigningKey(Struct, frozen=True):
    """A key of a storage, and the region that it signs for."""

    access_key: str
    secret_key: str
    region: str

    def __repr__(self) -> str:
        """Return a text without the key (SPEC S5)."""
        return f"SigningKey({self.region!r})"

    def sign(self, method: str, path: str, headers: dict[str, str], digest: str, now: datetime) -> dict[str, str]:
        """Return these headers and those of the signature. `path` is escaped; `digest` is the SHA-256 of the body."""
        stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        signed = {**headers, "x-amz-content-sha256": digest, "x-amz-date": stamp}
        names = ";".join(sorted(signed))
        lines = [f"{name}:{' '.join(signed[name].split())}" for name in sorted(signed)]
        request = "\n".join([method, path, "", *lines, "", names, digest])  # the empty line: there is no query
        scope = f"{stamp[:8]}/{self.region}/s3/aws4_request"
        text = "\n".join([_ALGORITHM, stamp, scope, hashlib.sha256(request.encode()).hexdigest()])
        signature = hmac.new(self._daily_key(stamp[:8]), text.encode(), hashlib.sha256).hexdigest()
        credential = f"Credential={self.access_key}/{scope}"
        return {
            **signed,
            "authorization": f"{_ALGORITHM} {credential}, SignedHeaders={names}, Signature={signature}",
        }

    def _daily_key(self, day: str) -> bytes:
        """Return the key that signs on this day (`20260131`)."""
        key = f"AWS4{self.secret_key}".encode()
        for part in (day, self.region, "s3", "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return key


def escape_path(path: str) -> str:
    """Return the path as the signature wants it: everything but letters, digits and `/-._~` is escaped."""
    return quote(path, safe="/-._~")
