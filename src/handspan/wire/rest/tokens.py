"""Tokens, pairing codes and sign-in links, as REST shows them (SPEC S5)."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from handspan.core.principals import DEVICE_SCOPES, TokenScope

Scopes = Annotated[tuple[TokenScope, ...], Meta(min_length=1, max_length=3)]
TokenLabel = Annotated[str, Meta(max_length=64, description="A name for people.")]


class ShownToken(Struct, frozen=True):
    """What is known of a token: never the token itself."""

    id: str
    label: str
    scopes: tuple[str, ...]
    created: str
    last_seen: str | None
    revoked: str | None
    current: bool
    """The one that this request came with."""


class TokenList(Struct, frozen=True):
    """The caller's tokens, the first one first."""

    tokens: list[ShownToken]


class NewToken(Struct, frozen=True, forbid_unknown_fields=True):
    """A token to make."""

    scopes: Scopes = ("chat",)
    label: TokenLabel = ""


class MadeToken(Struct, frozen=True):
    """The token, shown this once."""

    token: str
    id: str
    """By which it is listed, and revoked."""
    scopes: tuple[str, ...]
    label: str

    def __repr__(self) -> str:
        """Without the token: a repr ends up in logs."""
        return f"MadeToken(id={self.id!r})"


class RevokedToken(Struct, frozen=True):
    """It opens nothing any more, and what it had opened is closed."""

    revoked: bool
    id: str


class NewCode(Struct, frozen=True, forbid_unknown_fields=True):
    """What the token will be that the code becomes."""

    scopes: Scopes = DEVICE_SCOPES


class MadeCode(Struct, frozen=True):
    """A pairing code: single use, and soon over."""

    code: str
    scopes: tuple[str, ...]
    expires_in: float
    """Seconds."""
    url: str | None
    """Where another computer or a phone reaches this gateway; null when only this computer does."""


class PairHeaders(Struct, frozen=True, rename=lambda name: name.replace("_", "-")):
    """Where ClawSeed's clients put the code."""

    x_pairing_code: str = ""


class PairBody(Struct, frozen=True):
    """The code, where no header has it, and a name for people."""

    code: str = ""
    label: str = ""


class Paired(Struct, frozen=True):
    """The token, shown this once."""

    token: str
    message: str
    paired: Literal[True] = True
    persisted: Literal[True] = True


class SignInQuery(Struct, frozen=True):
    """What the link has."""

    code: str = ""


class SignInLink(Struct, frozen=True):
    """A link that signs one browser in, once and soon."""

    url: str
    expires_in: float
    """Seconds."""
