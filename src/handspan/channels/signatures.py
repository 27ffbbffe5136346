"""Signatures of webhooks: HMAC-SHA256 over the time and the body, good for five minutes."""

import hashlib
import hmac
import time
from typing import Final

from handspan.core.errors import WireError

TIME_HEADER: Final = "X-Handspan-Timestamp"
SIGNATURE_HEADER: Final = "X-Handspan-Signature"
VALID_SECONDS: Final = 300
SHORTEST_SECRET: Final = 16
_VERSION: Final = "v1="
_LONGEST_TIME: Final = 12


def sign(secret: str, body: bytes, at: int | None = None) -> dict[str, str]:
    """Return the two headers that sign this body, for this moment (seconds since 1970) or now."""
    moment = str(int(time.time()) if at is None else at)
    return {TIME_HEADER: moment, SIGNATURE_HEADER: _VERSION + _digest(secret, moment, body)}


def check_signature(secret: str, body: bytes, moment: str, signature: str, now: float | None = None) -> str:
    """Return the signature of this body, by which a repeated request is known. Raises `WireError` for a wrong one."""
    if not (moment.isascii() and moment.isdecimal() and len(moment) <= _LONGEST_TIME) or not signature:
        raise WireError(f"Sign the request: {TIME_HEADER} (seconds since 1970) and {SIGNATURE_HEADER} (v1=HMAC).")
    wanted = _digest(secret, moment, body)
    given = signature.strip().removeprefix(_VERSION).lower()
    if not hmac.compare_digest(wanted.encode(), given.encode("utf-8", "replace")):
        raise WireError(f"The signature is wrong: it is v1= and the hex of HMAC-SHA256(secret, {TIME_HEADER}.body).")
    if abs((time.time() if now is None else now) - int(moment)) > VALID_SECONDS:
        raise WireError(f"The signature is older than {VALID_SECONDS} s, or from the future: check the clock.")
    return wanted


def _digest(secret: str, moment: str, body: bytes) -> str:
    return hmac.new(secret.encode(), moment.encode() + b"." + body, hashlib.sha256).hexdigest()
