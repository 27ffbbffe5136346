"""Call ids for requests with a client's idempotency key, derived with a secret of the state folder.

A repeated request gets the same call id, even after a restart: so the ledger finds the call of the first request.
"""

import asyncio
import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Final

import msgspec

from handspan.config.private_files import read_private, write_private
from handspan.core.errors import StoreError

KEY_BYTES: Final = 32


def derive_call_id(secret: bytes, owner: str, key: str) -> str:
    """Return the call id for this owner and key, in UUID form."""
    digest = hmac.new(secret, msgspec.json.encode([owner, key]), hashlib.sha256).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"


class FileIdempotency:
    """Derives ids with a secret that is stored in its own file. The first request creates that file."""

    def __init__(self, state: Path) -> None:
        self._file = state / "idempotency.key"
        self._secret = b""
        self._loading = asyncio.Lock()

    async def call_id(self, owner: str, key: str) -> str:
        """Return the call id for this owner and key, in UUID form. Raises `StoreError` if the secret can't be used."""
        async with self._loading:
            self._secret = self._secret or await asyncio.to_thread(self._load)
        return derive_call_id(self._secret, owner, key)

    def _load(self) -> bytes:
        """Return the secret in the file; make the file if it is missing. Raises `StoreError`."""
        try:
            secret = read_private(self._file) or self._make_secret()
        except OSError as error:
            raise StoreError(f"{self._file} can't be used: {error.strerror}. Let this user write it.") from None
        if len(secret) != KEY_BYTES:
            raise StoreError(f"{self._file} is damaged: remove it. Calls that were made with a key may run again then.")
        return secret

    def _make_secret(self) -> bytes:
        """Write a new secret, unless another process was faster. Return the secret that is in the file then."""
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._file.with_name(f".{self._file.name}.{secrets.token_hex(4)}.new")
        try:
            write_private(fresh, secrets.token_bytes(KEY_BYTES), is_synced=True)
            os.link(fresh, self._file)
        except FileExistsError:
            pass
        finally:
            fresh.unlink(missing_ok=True)
        return read_private(self._file) or b""
