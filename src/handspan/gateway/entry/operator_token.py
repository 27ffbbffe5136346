"""The operator's token: made at the first start, in a file that only its owner can read (SPEC S5)."""

import string
from pathlib import Path
from typing import Final

from handspan.config.private_files import read_private, replace_private
from handspan.core.errors import ConfigError
from handspan.core.principals import OPERATOR
from handspan.core.store import TokenBook
from handspan.gateway.entry.tokens import hash_of, new_token

OPERATOR_LABEL: Final = "operator"
FILE: Final = "operator.token"
_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "-_")
_SHORTEST: Final = 32


def read_operator_token(state: Path) -> str | None:
    """Return the token in the state folder; None without a valid one. Raises `ConfigError` if it can't be read."""
    file = state / FILE
    try:
        data = read_private(file)
    except OSError as error:
        raise ConfigError(
            f"{file} can't be read: {error.strerror}. Let this user read it, or remove it: a new one is made then."
        ) from None
    token = (data or b"").decode("latin-1").strip()
    return token if len(token) >= _SHORTEST and _CHARACTERS.issuperset(token) else None


async def open_operator_token(state: Path, tokens: TokenBook, *, is_alone: bool = True) -> str:
    """Return the token of the file while it is valid, else a new one. All earlier operator tokens are revoked,
    unless this gateway is one of several: each of these has its own.
    """
    valid = read_operator_token(state)
    known = {token.hash: token for token in await tokens.all(owner=OPERATOR.owner)}
    record = known.get(hash_of(valid)) if valid else None
    if not valid or (record is not None and record.revoked is not None):
        valid = new_token()
        _write(state / FILE, valid)
    for token in known.values() if is_alone else ():
        if token.label == OPERATOR_LABEL and token.revoked is None and token.hash != hash_of(valid):
            await tokens.revoke(token.hash, owner=OPERATOR.owner)
    if hash_of(valid) not in known:
        await tokens.add(hash_of(valid), owner=OPERATOR.owner, scopes=OPERATOR.scopes, label=OPERATOR_LABEL)
    return valid


def _write(file: Path, token: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_private(file, f"{token}\n".encode())
    except OSError as error:
        raise ConfigError(
            f"{file} can't be written: {error.strerror}. Let this user write the folder, or set another `state` folder."
        ) from None
