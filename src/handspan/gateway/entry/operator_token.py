"""The operator's token: made at the first start, in a file that only its owner can read (SPEC S5)."""

import string
from pathlib import Path
from typing import Final

from handspan.config.private_files import read_private, replace_private
from handspan.core.errors import ConfigError, ToolError
from handspan.core.principals import OPERATOR
from handspan.core.store import TokenBook
from handspan.gateway.entry.tokens import hash_of, new_token

OPERATOR_LABEL: Final = "operator"
FILE: Final = "operator.token"
_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "-_")
_SHORTEST: Final = 32
_UNUSABLE: Final = (
    f"cluster.operator_token {{}}: set at least {_SHORTEST} random letters, digits, - and _, such as"
    " `openssl rand -hex 32` prints, the same for all nodes."
)


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
    return token if _is_token(token) else None


def _is_token(text: str) -> bool:
    return len(text) >= _SHORTEST and _CHARACTERS.issuperset(text)


def operator_label(node: str) -> str:
    """Return the label of the operator's token; `node`: the name of the node whose token it is, if it is one's own."""
    return f"{OPERATOR_LABEL} of {node}" if node else OPERATOR_LABEL


def is_operator_label(label: str) -> bool:
    """Whether only an operator's token can have this label."""
    return label == OPERATOR_LABEL or label.startswith(operator_label(" ").rstrip())


async def open_operator_token(state: Path, tokens: TokenBook, *, node: str = "", shared: str = "") -> str:
    """Return the operator's token, which the file in the state folder has from now on.

    `shared`: the one of all nodes, from the settings. Otherwise it is the one of the file while it is valid, else a new
    one. `node`: this gateway is one of several, under this name, and the others have tokens of their own. A gateway
    that is alone revokes all earlier ones. Raises `ConfigError` for a shared one that can't be used.
    """
    valid = shared or read_operator_token(state)
    known = {token.hash: token for token in await tokens.all(owner=OPERATOR.owner)}
    record = known.get(hash_of(valid)) if valid else None
    is_revoked = record is not None and record.revoked is not None
    if shared and (is_revoked or not _is_token(shared)):
        raise ConfigError(_UNUSABLE.format("was revoked" if is_revoked else "is no token"))
    if not valid or is_revoked:
        valid = new_token()
    if valid != read_operator_token(state):
        _write(state / FILE, valid)
    for token in () if node else known.values():
        if is_operator_label(token.label) and token.revoked is None and token.hash != hash_of(valid):
            await tokens.revoke(token.hash, owner=OPERATOR.owner)
    if hash_of(valid) not in known:
        label = OPERATOR_LABEL if shared else operator_label(node)
        try:
            await tokens.add(hash_of(valid), owner=OPERATOR.owner, scopes=OPERATOR.scopes, label=label)
        except ToolError:
            if not shared:  # else a node that starts at the same time was faster
                raise
    return valid


def _write(file: Path, token: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_private(file, f"{token}\n".encode())
    except OSError as error:
        raise ConfigError(
            f"{file} can't be written: {error.strerror}. Let this user write the folder, or set another `state` folder."
        ) from None
