"""The ids of calls that come with a key of their client's, made with a secret of the state folder.

A repeated request gets the same id, so the ledger knows the call even after a restart.
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

_KEY_BYTES: Final = 32


class FileIdempotency:
    """Ids by a secret in a file of its own, which is made when the first one is asked for."""

    def __init__(self, state: Path) -> None:
        self._file = state / "idempotency.key"
        self._secret = b""
        self._loading = asyncio.Lock()

    async def call_id(self, owner: str, key: str) -> str:
        """The id of the call that this owner asks for under this key, in UUID form."""
        async with self._loading:
            self._secret = self._secret or await asyncio.to_thread(self._load)
        drawn = hmac.new(self._secret, msgspec.json.encode([owner, key]), hashlib.sha256).hexdigest()
        return f"{drawn[:8]}-{drawn[8:12]}-8{drawn[13:16]}-a{drawn[17:20]}-{drawn[20:32]}"

    def _load(self) -> bytes:
        try:
            found = read_private(self._file) or self._make()
        except OSError as error:
            raise StoreError(f"{self._file} can't be used: {error.strerror}. Let this user write it.") from None
        if len(found) != _KEY_BYTES:
            raise StoreError(f"{self._file} is damaged: remove it. Calls that were made with a key may run again then.")
        return found

    def _make(self) -> bytes:
        """A new secret, unless another process has just made one."""
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._file.with_name(f".{self._file.name}.{secrets.token_hex(4)}.new")
        try:
            write_private(fresh, secrets.token_bytes(_KEY_BYTES), is_synced=True)
            os.link(fresh, self._file)
        except FileExistsError:
            pass
        finally:
            fresh.unlink(missing_ok=True)
        return read_private(self._file) or b""
