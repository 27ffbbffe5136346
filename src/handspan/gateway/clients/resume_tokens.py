"""Tokens that let a peer come back as itself (ws.md 6.1): signed, so that nothing has to be kept of each."""

import hmac
import os
import secrets
from hashlib import sha256
from pathlib import Path
from typing import Final

from handspan.core.errors import ConfigError

_KEY_BYTES: Final = 32


class ResumeTokens:
    """Writes and reads them. The key is in the state folder: a token outlives this process."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def issue(self, peer: str, owner: str) -> str:
        """The token with which this peer of this owner comes back."""
        return f"{peer}.{self._signature(peer, owner)}"

    def read(self, token: str, owner: str) -> str | None:
        """The peer that may come back with it; None when it is not one of ours, or another owner's."""
        peer, _, signature = token.partition(".")
        is_ours = hmac.compare_digest(signature.encode(errors="replace"), self._signature(peer, owner).encode())
        return peer if is_ours else None

    def _signature(self, peer: str, owner: str) -> str:
        return hmac.new(self._key, f"{peer}\n{owner}".encode(errors="replace"), sha256).hexdigest()[:40]


def load_key(file: Path) -> bytes:
    """The key in this file, which is made at the first start; `ConfigError` when it can't be kept."""
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
            f"The file {str(file)!r} can't be kept: {error.strerror}. Set another state folder."
        ) from None
