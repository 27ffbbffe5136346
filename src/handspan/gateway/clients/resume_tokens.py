"""Tokens with which a peer comes back as itself (ws.md 6.1). They are signed, so that none has to be stored."""

import hmac
import os
import secrets
from hashlib import sha256
from pathlib import Path
from typing import Final

from handspan.core.errors import ConfigError

_KEY_BYTES: Final = 32


class ResumeTokens:
    """Issues and reads resume tokens. The key is in the state folder: tokens stay valid after a restart."""

    def __init__(self, key: bytes = b"") -> None:
        self._key = key

    def use(self, key: bytes) -> None:
        """Sign with this key from now on."""
        self._key = key

    def issue(self, peer: str, owner: str, role: str, access: str) -> str:
        """Return the token with which this peer comes back, in the same role and with the same access token.

        `access`: the hash of the access token. The owner is a part, too: inside a process there is no access token.
        """
        return f"{peer}.{self._signature(peer, owner, role, access)}"

    def read(self, token: str, owner: str, role: str, access: str) -> str | None:
        """Return the peer that may come back; None for a wrong token, or one of another owner, role or access token."""
        peer, _, signature = token.partition(".")
        expected = self._signature(peer, owner, role, access)
        return peer if hmac.compare_digest(signature.encode(errors="replace"), expected.encode()) else None

    def _signature(self, peer: str, owner: str, role: str, access: str) -> str:
        text = f"{peer}\n{role}\n{access}\n{owner}"
        return hmac.new(self._key, text.encode(errors="replace"), sha256).hexdigest()[:40]


def load_key(file: Path) -> bytes:
    """Return the key in this file, which the first start makes. Raises `ConfigError` when that is not possible."""
    try:
        found = file.read_bytes() if file.exists() else b""
        if len(found) == _KEY_BYTES:
            return found
        made = secrets.token_bytes(_KEY_BYTES)
        new = file.with_name(f"{file.name}.{os.getpid()}")
        new.touch(mode=0o600)
        new.write_bytes(made)
        new.replace(file)
        return made
    except OSError as error:
        raise ConfigError(
            f"The file {str(file)!r} can't be used: {error.strerror}. Set another state folder."
        ) from None
