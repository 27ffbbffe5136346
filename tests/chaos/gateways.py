"""Where the state machine finds its gateway: in this process, where it ends in order, or in one that is killed."""

from pathlib import Path
from typing import Protocol, cast

from handspan.core.calls import CallRecord, new_call_id
from handspan.core.results import envelope
from handspan.core.values import JsonObject
from handspan.testing import GatewayProcess
from handspan.testing.gateway import running_gateway
from tests.chaos.kills import PLAIN_PROCESS
from tests.chaos.rest import RestCaller
from tests.chaos.witness import StoredCall, journal_of, kept
from tests.stores import is_postgres, postgres_variables, store_settings

GRACE = 30


class RestartableGateway(Protocol):
    """A gateway that can be restarted, and asked what it keeps."""

    url: str
    token: str

    async def open(self) -> None:
        """Be there."""
        ...

    async def call(self, key: str, name: str) -> JsonObject:
        """The envelope of a call of this tool with the argument `for`."""
        ...

    async def restart(self) -> None:
        """End, somehow, and be there again."""
        ...

    async def look(self, call_id: str) -> StoredCall:
        """What is kept of a call."""
        ...

    async def open_calls(self) -> int:
        """How many calls have no result."""
        ...

    async def close(self) -> dict[str, StoredCall]:
        """Be gone; what is kept of all calls, by their argument `for`."""
        ...


class InThisProcess:
    """Ends in order."""

    def __init__(self, folder: Path) -> None:
        self._context = running_gateway(folder, gateway={"resume_grace": GRACE}, store=store_settings(folder / "state"))
        self.url = self.token = ""

    async def open(self) -> None:
        self._gateway = await self._context.__aenter__()
        self.url, self.token = self._gateway.url, self._gateway.token

    async def call(self, key: str, name: str) -> JsonObject:
        return envelope(await self._gateway.call_as(new_call_id(), name, {"for": key}))

    async def restart(self) -> None:
        await self._gateway.restart()

    async def look(self, call_id: str) -> StoredCall:
        record = await self._gateway.gateway.parts.store.ledger.find(call_id)
        assert record is not None, f"the call {call_id} is not known"
        return kept([record])[call_id]

    async def open_calls(self) -> int:
        return sum(record.state != "done" for record in await self._gateway.journal())

    async def close(self) -> dict[str, StoredCall]:
        journal = by_key(await self._gateway.journal())
        await self._context.__aexit__(None, None, None)
        return journal


class InItsOwnProcess:
    """Is killed. Its callers come back with the same key."""

    def __init__(self, folder: Path) -> None:
        # The tables are its own, not those of the whole run: another walk must not find its calls.
        database = postgres_variables(folder) if is_postgres() else {}
        environ = {**PLAIN_PROCESS, **database, "HANDSPAN_GATEWAY__RESUME_GRACE": str(GRACE)}
        self._process = GatewayProcess(folder, environ=environ)
        self.url = self.token = ""

    async def open(self) -> None:
        await self._process.start()
        self.url, self.token = self._process.url, self._process.token
        self._caller = RestCaller(self.url, self.token)

    async def call(self, key: str, name: str) -> JsonObject:
        return (await self._caller.call(name, {"for": key}, key))[1]

    async def restart(self) -> None:
        await self._process.restart()

    async def look(self, call_id: str) -> StoredCall:
        shown = cast(JsonObject, await self._caller.get(f"/api/calls/{call_id}"))
        return StoredCall(str(shown["state"]), cast(JsonObject | None, shown["result"]))

    async def open_calls(self) -> int:
        return len(cast(list[object], cast(JsonObject, await self._caller.get("/api/calls?status=open"))["calls"]))

    async def close(self) -> dict[str, StoredCall]:
        await self._caller.close()
        try:
            assert await self._process.terminate() == 0
            assert "Traceback" not in self._process.log, self._process.log
        finally:
            await self._process.kill()
        return by_key(await journal_of(self._process.state))


def by_key(records: list[CallRecord]) -> dict[str, StoredCall]:
    """The journal by the argument `for`."""
    found = kept(records)
    return {
        str(record.arguments["for"]): found[record.id]
        for record in records
        if not isinstance(record.arguments, bytes | str)
    }
