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
from handspan.store.tables.rows import replace_columns

_decoder: Final = msgspec.json.Decoder(Agent)


class StoredAgents:
    """Stores agents. Raises `ToolError`: `file_not_found` for an unknown name, `invalid_arguments` for a taken one."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self, *, owner: str) -> Sequence[Agent]:
        """Return the owner's agents by name; the built-in one comes first."""
        found = await self._database.read_few(partial(_all, sanitize(owner)))  # few rows: a thread would cost more
        return [found.pop(GENERAL.name), *(found[name] for name in sorted(found))]

    async def find(self, name: str, *, owner: str) -> Agent | None:
        """Return the agent of this name, or None."""
        return await self._database.read_few(partial(_find, name, sanitize(owner)))

    async def create(self, agent: Agent, *, owner: str) -> None:
        """Store a new agent."""
        await self._database.write(partial(_insert, agent, sanitize(owner)))

    async def clone(self, name: str, new_name: str, *, owner: str) -> Agent:
        """Store a copy under another name and return it."""

        async def work(connection: TableConnection) -> Agent:
            copy = structs.replace(await _get(name, sanitize(owner), connection), name=new_name)
            await _insert(copy, sanitize(owner), connection)
            return copy

        return await self._database.write(work)

    async def edit(self, name: str, change: Callable[[Agent], Agent], *, owner: str) -> Agent:
        """Replace this agent by the one that `change` returns, and return that. Changes at the same time run in turn.

        If its name changes, its sessions get the new name. The built-in agent can't be renamed. `change` may run more
        than once.
        """
        return await self._database.write(partial(_edit, name, change, sanitize(owner)))

    async def delete(self, name: str, *, owner: str) -> int:
        """Remove this agent and give its sessions to the built-in one. Return the number of these sessions."""
        return await self._database.write(partial(_delete, name, sanitize(owner)))


async def _all(owner: str, connection: TableConnection) -> dict[str, Agent]:
    rows = await connection.fetch_all("SELECT name, body FROM agents WHERE owner = ?", (owner,))
    return {GENERAL.name: GENERAL} | {name: _decoder.decode(body) for name, body in rows}


async def _find(name: str, owner: str, connection: TableConnection) -> Agent | None:
    sql = "SELECT body FROM agents WHERE owner = ? AND name = ?"
    row = await connection.fetch_one(sql, (owner, sanitize(name)))
    if row is None:
        return GENERAL if name == GENERAL.name else None
    return _decoder.decode(row[0])


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
                "invalid_arguments", f"The agent {name!r} is built in and keeps its name: clone it instead."
            )
        await _check_new_name(agent, owner, connection)
        await _move_sessions(name, agent.name, owner, connection)
        await connection.execute("DELETE FROM agents WHERE owner = ? AND name = ?", (owner, sanitize(name)))
    await _save(agent, owner, connection)
    return agent


async def _delete(name: str, owner: str, connection: TableConnection) -> int:
    await _get(name, owner, connection)
    if name == GENERAL.name:
        raise ToolError("invalid_arguments", f"The agent {name!r} is built in and can't be removed.")
    await connection.execute("DELETE FROM agents WHERE owner = ? AND name = ?", (owner, sanitize(name)))
    return await _move_sessions(name, GENERAL.name, owner, connection)


async def _check_new_name(agent: Agent, owner: str, connection: TableConnection) -> None:
    if agent.name.strip() != agent.name or not agent.name.isprintable() or not 0 < len(agent.name) <= 100:
        text = f"{agent.name[:60]!r} can't be an agent's name: use 1 to 100 characters of one line."
        raise ToolError("invalid_arguments", text)
    if agent.name in await _all(owner, connection):
        raise ToolError("invalid_arguments", f"There is an agent {agent.name!r} already: choose another name.")


async def _save(agent: Agent, owner: str, connection: TableConnection) -> None:
    sql = "INSERT INTO agents (owner, name, body) VALUES (?, ?, ?)" + replace_columns("owner, name", "body")
    await connection.execute(sql, (owner, sanitize(agent.name), encode(agent)))


async def _move_sessions(old: str, new: str, owner: str, connection: TableConnection) -> int:
    """Give the sessions of the agent `old` to the agent `new`. Return their number."""
    sql = "UPDATE sessions SET agent = ? WHERE agent = ? AND owner = ?"
    return await connection.execute(sql, (sanitize(new), sanitize(old), owner))
