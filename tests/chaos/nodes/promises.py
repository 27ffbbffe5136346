"""What has to be true after every disturbance of a fleet, whatever it was."""

import asyncio
import json
import time
from collections import Counter
from itertools import count
from typing import Final

import httpx2
from msgspec import Struct

from tests.chaos.figures import Figure, none_of
from tests.chaos.nodes.fleet import Fleet, wait_for
from tests.chaos.nodes.load import NodesLoad

_SLACK: Final = 3
"""For each node: what comes and goes by itself, such as a request that is just being answered."""
_CALM_SECONDS: Final = 20.0
_numbers = count(1)


class HeldOpen(Struct, frozen=True):
    """What all nodes together hold open while nothing is called."""

    tasks: Counter[str]
    sockets: int
    subscriptions: int

    def beyond(self, before: "HeldOpen") -> list[str]:
        """Return what is more than before."""
        grown = self.tasks - before.tasks
        counts = (("tasks", grown.total()), ("sockets", self.sockets - before.sockets))
        more = (*counts, ("subscriptions", self.subscriptions - before.subscriptions))
        return [f"{number} {kind} ({dict(grown)})" for kind, number in more if number > _SLACK * 3]


async def held_open(fleet: Fleet) -> HeldOpen:
    """Ask all nodes."""
    reports = await asyncio.gather(*(node.report() for node in fleet.nodes))
    tasks: Counter[str] = Counter()
    for report in reports:
        tasks.update(report.tasks)
    sockets = sum(node.sockets(fleet.database_ports) for node in fleet.nodes)
    return HeldOpen(tasks, sockets, sum(len(report.subscriptions) for report in reports))


async def keep_promises(fleet: Fleet, load: NodesLoad, before: HeldOpen) -> list[Figure]:
    """The figures, when every part is well again. Everything works until now, and ends here."""
    equal_after = await _seconds_until_equal(fleet)
    await all_listed(fleet, load)
    await load.works()
    await load.pause()
    await load.end_runs()
    uncallable = await _uncallable(fleet, load)
    await wait_for_none(fleet, "open calls", "SELECT * FROM calls WHERE state <> 'done'")
    await wait_for_none(fleet, "running turns", "SELECT * FROM sessions WHERE state = 'running'")
    unpaired = {parcel: result for parcel, result in load.results.items() if result is None}
    return [
        Figure("calls with a result", sum(result is not None for result in load.results.values()), at_least=1),
        Figure("answers of chats", sum(map(len, load.said.values())), at_least=len(load.said)),
        Figure("runs of pages that came to their end", sum(page.finished for page in load.pages)),
        *(Figure(f"  {code}", number) for code, number in sorted(load.codes.items())),
        none_of("calls without a result", unpaired),
        none_of("calls that ran twice", (f"{parcel} x {times}" for parcel, times in load.ran.items() if times > 1)),
        none_of("wrong results", _wrong(load)),
        none_of("gaps and doubles in sessions", await _damaged_sessions(fleet, load)),
        none_of("results of pages that were taken and lost", await _lost_of_pages(fleet, load)),
        none_of("refusals of pages", (text for page in load.pages for text in (*page.broken, *page.unknown))),
        none_of("listed tools that can't be called", uncallable),
        Figure("lists equal on all nodes again", equal_after * 1000, "ms", at_most=3000),
        none_of("clients of dead nodes", map(str, await fleet.rows(_OF_DEAD_NODES))),
        none_of("tasks, sockets, subscriptions left open", await _leaks(fleet, before)),
        none_of("tracebacks in the logs", _tracebacks(fleet)),
    ]


_OF_DEAD_NODES: Final = "SELECT node FROM clients WHERE node NOT IN (SELECT id FROM nodes)"


async def _seconds_until_equal(fleet: Fleet) -> float:
    begun = time.monotonic()

    async def are_equal() -> bool:
        first, *others = await fleet.lists()
        return first is not None and all(one == first for one in others)

    await wait_for("all nodes list the same", are_equal)
    return time.monotonic() - begun


async def wait_for_none(fleet: Fleet, what: str, sql: str) -> None:
    """Wait until a statement finds nothing. Raises `TimeoutError` with the rows, the nodes and their logs."""
    try:
        await wait_for(f"no {what}", lambda: fleet.has_none(sql))
    except TimeoutError as error:
        rows, nodes = await fleet.rows(sql), await fleet.rows("SELECT * FROM nodes")
        logs = "\n".join(node.log[-3000:] for node in fleet.nodes)
        raise TimeoutError(f"{error}: {rows}\nnodes: {nodes}\n{logs}") from None


async def all_listed(fleet: Fleet, load: NodesLoad) -> None:
    """Wait until every node lists the tools of all devices."""
    wanted = {f"{label}__lift" for label in load.labels}

    async def is_so() -> bool:
        return all(found is not None and wanted <= found for found in await fleet.lists())

    try:
        await wait_for("every node lists all devices", is_so)
    except TimeoutError as error:
        raise TimeoutError(f"{error}: {await fleet.lists()}") from None


async def _uncallable(fleet: Fleet, load: NodesLoad) -> list[str]:
    """Call every listed tool from every node."""
    async with httpx2.AsyncClient(timeout=30, trust_env=False) as requests:
        calls = [(place, label) for place in range(len(fleet.nodes)) for label in load.labels]
        results = await asyncio.gather(
            *(load.call(requests, f"last-{next(_numbers)}", label, place) for place, label in calls)
        )
    return [
        f"{label} at node{place}: {result}"
        for (place, label), result in zip(calls, results, strict=True)
        if result["status"] != "success"
    ]


def _wrong(load: NodesLoad) -> list[str]:
    return [
        f"{parcel}: {result}"
        for parcel, result in load.results.items()
        if result is not None and result["status"] == "success" and result["result"] != parcel
    ]


async def _damaged_sessions(fleet: Fleet, load: NodesLoad) -> list[str]:
    """Sessions with a number that is missing, or with something that was said twice, or whose answer is missing."""
    holes = await fleet.rows("SELECT session FROM messages GROUP BY session HAVING max(seq) - min(seq) + 1 <> count(*)")
    found = [f"{session}: a number is missing" for (session,) in holes]
    for session, said in load.said.items():
        texts = await _stored(fleet, session)
        found += [f"{session}: {text!r} is there {texts[text]} times" for text in said if texts[text] != 1]
    return found


async def _stored(fleet: Fleet, session: str) -> Counter[str]:
    """What the person said, as the session has it."""
    bodies = await fleet.rows(f"SELECT body FROM messages WHERE session = '{session}'")
    messages = [json.loads(body) for (body,) in bodies]
    return Counter("".join(part.get("text", "") for part in one["parts"]) for one in messages if one["type"] == "user")


async def _lost_of_pages(fleet: Fleet, load: NodesLoad) -> list[str]:
    rows = await fleet.rows("SELECT id, result FROM calls WHERE name = 'lift' AND result IS NOT NULL")
    stored = {call: json.loads(result).get("result") for call, result in rows}
    taken = {call: output for page in load.pages for call, output in page.taken.items()}
    return [f"{call}: {stored.get(call)}" for call, output in taken.items() if stored.get(call) != output]


async def _leaks(fleet: Fleet, before: HeldOpen) -> list[str]:
    """What stays open, though nothing is called: given time to end."""
    end = time.monotonic() + _CALM_SECONDS
    while (found := (await held_open(fleet)).beyond(before)) and time.monotonic() < end:
        await asyncio.sleep(0.5)
    return found


def _tracebacks(fleet: Fleet) -> list[str]:
    return [node.log[node.log.index("Traceback") :][:3000] for node in fleet.nodes if "Traceback" in node.log]
