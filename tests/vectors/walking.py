"""Walks through a case of a client, whatever plays the client."""

from typing import Any, Protocol

import msgspec

from tests.vectors.cases import Case, FramePatterns, lean

_MAX = 1024 * 1024


class Player(Protocol):
    """A client under test, and the gateway's half of its link. Every wait is bounded."""

    async def up(self) -> None: ...

    async def drop(self) -> None: ...

    async def say(self, frame: dict[str, Any]) -> None: ...

    async def sent(self) -> dict[str, Any]:
        """The next frame of the client."""
        ...

    async def nothing_more(self) -> list[dict[str, Any]]:
        """What the client has sent besides, once it has done everything that it was asked for."""
        ...

    async def end(self, call_id: str, how: dict[str, Any]) -> None: ...

    async def decide(self, permission: str, decision: str, how_to_enable: str) -> None: ...

    async def answer(self, question_id: str, said: dict[str, Any]) -> None:
        """The person, who is being asked this, answers: `decision`, and more."""
        ...

    async def login_begun(self, call_id: str) -> str:
        """The intent of the login that the program was asked to begin for this call."""
        ...

    async def restart(self) -> None: ...

    async def unregister(self, name: str) -> None: ...

    def runs(self, tool: str) -> int: ...

    async def speak(self, text: str) -> None:
        """The program says this in its chat."""
        ...

    async def heard(self, count: int) -> list[Any]:
        """All events that it has heard of what it said; at least so many."""
        ...

    async def shown(self, count: int) -> list[Any]:
        """All messages of agents that it was given; at least so many."""
        ...


async def walk(case: Case, player: Player) -> None:
    """Do every step; an AssertionError says which one can't be done."""
    matching = FramePatterns()
    limit = _MAX
    for number, step in enumerate(case.steps):
        where = f"step {number}: {step}"
        match step:
            case {"link": "up"}:
                await player.up()
            case {"link": "drop"}:
                await player.drop()
            case {"connect": dict(given)}:
                await _connect(player, given, where)
                limit = _taken(given)
            case {"gateway": dict(frame)}:
                await player.say(matching.filled(frame))
                limit = _taken(frame) if frame["type"] == "connected" else limit
            case {"expect": pattern}:
                sent = await player.sent()
                assert len(msgspec.json.encode(sent)) <= limit, f"{where}: too large for this gateway"
                frame = lean(sent, "client")
                assert matching.matches(lean(pattern, "client"), frame), f"{where}: got {frame}"
            case {"handler": {"id": str(call_id)}}:
                await player.end(call_id, step["handler"])
            case {"person": {"permission": str(permission), "says": str(decision), **rest}}:
                await player.decide(permission, decision, str(rest.get("how_to_enable", "")))
            case {"person": {"question": str(question_id), "says": str(decision)}}:
                said = {key: value for key, value in step["person"].items() if key not in ("question", "says")}
                await player.answer(question_id, {"decision": decision, **said})
            case {"login": {"call_id": str(call_id), "intent": str(intent)}}:
                assert await player.login_begun(call_id) == intent, where
            case {"restart": True}:
                await player.restart()
            case {"unregister": str(name)}:
                await player.unregister(name)
            case {"say": str(text)}:
                await player.speak(text)
            case {"hears": list(events)}:
                heard = await player.heard(len(events))
                assert matching.matches(events, heard), f"{where}: heard {heard}"
            case {"shows": list(messages)}:
                shown = await player.shown(len(messages))
                assert matching.matches(messages, shown), f"{where}: shown were {shown}"
            case {"runs": dict(counts)}:
                assert await player.nothing_more() == [], where
                assert {tool: player.runs(tool) for tool in counts} == counts, where
            case {"quiet": True}:
                assert await player.nothing_more() == [], where
            case _:
                raise AssertionError(f"{where}: no such step")


async def _connect(player: Player, given: dict[str, Any], where: str) -> None:
    await player.up()
    hello, tools = await player.sent(), await player.sent()
    assert (hello["type"], tools["type"]) == ("connect", "register_tools"), f"{where}: got {hello}, {tools}"
    fields = {"capabilities": hello["capabilities"], "resume_token": "t1", "grace_ms": 60000, "resumed": False, **given}
    await player.say({"type": "connected", "v": 1, "message": "Connection established", **fields})


def _taken(connected: dict[str, Any]) -> int:
    """How many bytes of a message this gateway takes."""
    return int((connected.get("limits") or {}).get("message_bytes", _MAX))
