"""What the replies used: by session, model or day (SPEC M6)."""

from typing import Final

from handspan.gateway.rest.route import Family, Visit
from handspan.wire.rest.status import UsageList, UsageQuery

family: Final = Family("usage")


@family.get("/api/usage")
async def usage(visit: Visit, query: UsageQuery) -> UsageList:
    """What the caller's replies used."""
    sums = await visit.doors.store.usage.sums(
        query.by, owner=visit.owner, session=query.session or None, since=query.since
    )
    return UsageList(query.by, list(sums))
