"""An owner's agents as rows. The built-in agent always exists; an edited copy of it takes its place (SPEC A1)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec import structs

from handspan.core.agents import GENERAL, Agent
from handspan.core.errors import ToolError
from handspan.core.names import did_you_mean
from handspan.core.values import encode, sanitize
from handspan.store.tables.database import Database, TableConnection
from handspan.store.tables.rows import put_row

_SAVE: Final = put_row("agents", "owner, name", "body")
_FIND: Final = "SELECT body FROM agents WHERE owner = ? AND name = ?"
_REMOVE: Final = "DELETE FROM agents WHERE owner = ? AND name = ?"
_decoder: Final = msgspec.json.Decoder(Agent)


class StoredAgents:
    """Stores agents. Implements `AgentBook`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self, *, owner: str) -> Sequence[Agent]:
        found = await self._database.read_few(partial(_all, sanitize(owner)))  # few rows: a thread would cost more
        return [found.pop(GENERAL.name), *(found[name] for name in sorted(found))]

    async def find(self, name: str, *, owner: str) -> Agent | None:
        row = await self._database.fetch_one(_FIND, (sanitize(owner), sanitize(name)))
        if row is None:
            return GENERAL if name == GENERAL.name else None
        return _decoder.decode(row[0])

    async def create(self, agent: Agent, *, owner: str) -> None:
        await self._database.write(partial(_insert, agent, sanitize(owner)))

    async def clone(self, name: str, new_name: str, *, owner: str) -> Agent:
        async def work(connection: TableConnection) -> Agent:
            copy = structs.replace(await _get(name, sanitize(owner), connection), name=new_name)
            await _insert(copy, sanitize(owner), connection)
            return copy

        return await self._database.write(work)

    async def edit(self, name: str, change: Callable[[Agent], Agent], *, owner: str) -> Agent:
        return await self._database.write(partial(_edit, name, change, sanitize(owner)))

    async def delete(self, name: str, *, owner: str) -> int:
        return await self._database.write(partial(_delete, name, sanitize(owner)))


async def _all(owner: str, connection: TableConnection) -> dict[str, Agent]:
    rows = await connection.fetch_all("SELECT name, body FROM agents WHERE owner = ?", (owner,))
    return {GENERAL.name: GENERAL} | {name: _decoder.decode(body) for name, body in rows}


async def _get(name: str, owner: str, connection: TableConnection) -> Agent:
    agents = await _all(owner, connection)
    if name not in agents:
        text = f"There is no agent {name[:60]!r}.{did_you_mean(name, agents)} There are: {', '.join(sorted(agents))}."
        raise ToolError("file_not_found", text)
    return agents[name]


async def _insert(agent: Agent, owner: str, connection: TableConnection) -> None:
    await _check_new_name(agent, owner, connection)
    await _save(agent, owner, connection)


async def _edit(name: str, change: Callable[[Agent], Agent], owner: str, connection: TableConnection) -> Agent:
    """Replace the agent. If its name changes, its sessions get the new name."""
    agent = change(await _get(name, owner, connection))
    if agent.name != name:
        if name == GENERAL.name:
            raise ToolError(
                "invalid_arguments", f"The agent {name!r} is built-in and keeps its name: clone it instead."
            )
        await _check_new_name(agent, owner, connection)
        await _move_sessions(name, agent.name, owner, connection)
        await connection.execute(_REMOVE, (owner, sanitize(name)))
    await _save(agent, owner, connection)
    return agent


async def _delete(name: str, owner: str, connection: TableConnection) -> int:
    await _get(name, owner, connection)
    if name == GENERAL.name:
        raise ToolError("invalid_arguments", f"The agent {name!r} is built-in and can't be removed.")
    await connection.execute(_REMOVE, (owner, sanitize(name)))
    return await _move_sessions(name, GENERAL.name, owner, connection)


async def _check_new_name(agent: Agent, owner: str, connection: TableConnection) -> None:
    if agent.name.strip() != agent.name or not agent.name.isprintable() or not 0 < len(agent.name) <= 100:
        text = f"{agent.name[:60]!r} can't be an agent's name: use 1 to 100 characters of one line."
        raise ToolError("invalid_arguments", text)
    if agent.name in await _all(owner, connection):
        raise ToolError("invalid_arguments", f"There is an agent {agent.name!r} already: choose another name.")


async def _save(agent: Agent, owner: str, connection: TableConnection) -> None:
    await connection.execute(_SAVE, (owner, sanitize(agent.name), encode(agent)))


async def _move_sessions(old: str, new: str, owner: str, connection: TableConnection) -> int:
    """Give the sessions of the agent `old` to the agent `new`. Return their number."""
    sql = "UPDATE sessions SET agent = ? WHERE agent = ? AND owner = ?"
    return await connection.execute(sql, (sanitize(new), sanitize(old), owner))
