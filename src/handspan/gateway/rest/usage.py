"""What the replies used: by session, model or day (SPEC M6)."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from handspan.core.records import UsageSum
from handspan.gateway.rest.route import Family, Visit
from handspan.gateway.rest.shown import SessionId

family: Final = Family("usage")


class UsageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """What is summed."""

    by: Literal["session", "model", "day"] = "model"
    session: SessionId = ""
    since: Annotated[
        str, Meta(pattern=r"^([0-9]{4}-[0-9]{2}-[0-9]{2})?$", description="A day (UTC), as 2026-01-31.")
    ] = ""


class UsageList(Struct, frozen=True):
    """One sum for each session, model or day. What nobody said is unknown (null), never 0."""

    by: str
    usage: list[UsageSum]


@family.get("/api/usage")
async def usage(visit: Visit, query: UsageQuery) -> UsageList:
    """What the caller's replies used."""
    sums = await visit.doors.store.usage.sums(
        query.by, owner=visit.owner, session=query.session or None, since=query.since
    )
    return UsageList(query.by, list(sums))
