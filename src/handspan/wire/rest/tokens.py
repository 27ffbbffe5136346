"""Tokens, pairing codes and sign-in links in REST (SPEC S5)."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from handspan.core.principals import DEVICE_SCOPES, TokenScope

Scopes = Annotated[tuple[TokenScope, ...], Meta(min_length=1, max_length=3)]
TokenLabel = Annotated[str, Meta(max_length=64, description="A name for people.")]


class TokenView(Struct, frozen=True):
    """A token in a list, without the token itself."""

    id: str
    label: str
    scopes: tuple[str, ...]
    created: str
    last_seen: str | None
    revoked: str | None
    current: bool
    """Whether this request uses it."""


class TokenList(Struct, frozen=True):
    """The caller's tokens, the oldest first."""

    tokens: list[TokenView]


class NewToken(Struct, frozen=True, forbid_unknown_fields=True):
    """A token to create."""

    scopes: Scopes = ("chat",)
    label: TokenLabel = ""
    agents: Annotated[tuple[str, ...], Meta(max_length=32)] = ()
    """The only agents whose tools it may use; with the scope `tools` alone. Empty: every agent's."""
    answers: bool = False
    """Whether an MCP client with it may answer, for the person at it, whether a call of its own may run."""


class MadeToken(Struct, frozen=True):
    """The new token. It is shown only this once."""

    token: str
    id: str
    """The id in lists, and for `DELETE`."""
    scopes: tuple[str, ...]
    label: str

    def __repr__(self) -> str:
        """Hide the token: a repr may end up in logs."""
        return f"MadeToken(id={self.id!r})"


class RevokedToken(Struct, frozen=True):
    """The token is revoked, and its connections are closed."""

    revoked: bool
    id: str


class NewCode(Struct, frozen=True, forbid_unknown_fields=True):
    """The scopes of the token that the code gives."""

    scopes: Scopes = DEVICE_SCOPES


class MadeCode(Struct, frozen=True):
    """A pairing code. It works once, and for a short time."""

    code: str
    scopes: tuple[str, ...]
    expires_in: float
    """Seconds."""
    url: str | None
    """The address of this gateway for other computers and phones. Null: only this computer reaches it."""
    link: str
    """The page that makes a browser a device, with this code."""
    qr: str | None
    """The link as a QR code: an SVG image. Null where `url` is."""
    pin: str | None = None
    """The SHA-256 of the gateway's own root certificate (base64url), as the link has it. Null: the link has none."""

    def __repr__(self) -> str:
        """Hide the code: a repr may end up in logs."""
        return f"MadeCode(scopes={self.scopes!r})"


class PairHeaders(Struct, frozen=True, rename=lambda name: name.replace("_", "-")):
    """The header in which ClawSeed's clients send the code."""

    x_pairing_code: str = ""


class PairBody(Struct, frozen=True):
    """The code, if no header has it, a name for people, and the scopes that the client needs."""

    code: str = ""
    label: str = ""
    scopes: tuple[str, ...] | None = None
    """Fewer than the code has, for a client that needs no more; none given: all of the code's."""


class Paired(Struct, frozen=True):
    """The new token. It is shown only this once."""

    token: str
    message: str
    paired: Literal[True] = True
    persisted: Literal[True] = True


class WhoAmI(Struct, frozen=True):
    """The caller, as the gateway knows it."""

    owner: str
    scopes: tuple[str, ...]
    is_browser: bool
    """Whether the cookie of a sign-in link let it in."""


class SignInQuery(Struct, frozen=True):
    """The code of a sign-in link."""

    code: str = ""


class SignInLink(Struct, frozen=True):
    """A link that signs one browser in. It works once, and for a short time."""

    url: str
    expires_in: float
    """Seconds."""
