"""Tokens of programs and devices, and the codes that become them; for admins (SPEC S5)."""

from typing import Final

from handspan.core.records import Token
from handspan.gateway.entry.tokens import hash_of
from handspan.gateway.http.routing import moment
from handspan.gateway.listening import url_for_others
from handspan.gateway.rest.errors import not_found
from handspan.gateway.rest.route import Family, Visit
from handspan.wire.rest.tokens import MadeCode, MadeToken, NewCode, NewToken, RevokedToken, ShownToken, TokenList

family: Final = Family("tokens")
_SHOWN: Final = 16
"""Characters of the hash that tell a token from the owner's others."""


@family.get("/api/tokens", "admin")
async def tokens(visit: Visit) -> TokenList:
    """The caller's tokens, revoked ones too."""
    found = await visit.doors.store.tokens.all(owner=visit.owner)
    return TokenList([_shown(visit, token) for token in found])


@family.post("/api/tokens", "admin", status=201)
async def create_token(visit: Visit, body: NewToken) -> MadeToken:
    """A new token of the caller, for a program or a device."""
    scopes = tuple(dict.fromkeys(body.scopes))
    token = await visit.doors.auth.issue(visit.owner, scopes, body.label)
    visit.tell("tokens", change="created")
    return MadeToken(token, hash_of(token)[:_SHOWN], scopes, body.label)


@family.delete("/api/tokens/{token_id}", "admin")
async def revoke_token(visit: Visit, token_id: str) -> RevokedToken:
    """Let a token in no more; connections that it opened close at once."""
    known = {token.hash[:_SHOWN]: token.hash for token in await visit.doors.store.tokens.all(owner=visit.owner)}
    if token_id not in known or not await visit.doors.auth.revoke(known[token_id], visit.owner):
        raise not_found("token", token_id)
    visit.tell("tokens", change="revoked", id=token_id)
    return RevokedToken(True, token_id)


@family.post("/api/pairing", "admin", status=201)
async def create_code(visit: Visit, body: NewCode) -> MadeCode:
    """A code that lets one device in (`POST /pair`), once and soon."""
    made = visit.doors.pairing.new_code(visit.who, tuple(dict.fromkeys(body.scopes)))
    settings = visit.doors.app.settings.gateway
    _, port = visit.request.scope.get("server") or ("", None)
    return MadeCode(made.code, made.scopes, made.expires_in, url_for_others(settings, port or settings.port))


def _shown(visit: Visit, token: Token) -> ShownToken:
    assert visit.admitted is not None
    return ShownToken(
        token.hash[:_SHOWN],
        token.label,
        token.scopes,
        moment(token.created),
        None if token.last_seen is None else moment(token.last_seen),
        None if token.revoked is None else moment(token.revoked),
        token.hash == visit.admitted.token,
    )
