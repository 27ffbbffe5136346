"""How far it goes: what so many devices need, computed from figures that were measured, and what breaks first.

Only arithmetic: `capacity_figures.py` measures, `capacity_page.py` is the command.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

SIZES: Final = (5_000, 50_000, 300_000, 1_000_000)
_CORE: Final = 1e6
"""Microseconds of CPU time that a core has in a second. A gateway process uses one core."""


class Base(Struct, frozen=True):
    """What was measured, when and on what."""

    when: str
    machine: str
    device_kb: float
    """KB of the gateway for an idle device."""
    connect_ms: float
    """Milliseconds of its CPU time for a device that connects and registers its tools."""
    call_us: float
    """Microseconds of its CPU time for a call of a device's tool that is stored, inside one gateway."""
    frame_us: float
    """The same for one piece of a model's answer, on its way to one chat."""
    sqlite_per_s: float
    """Writes that SQLite acknowledges in a second."""
    postgres_per_s: float | None
    """The same for PostgreSQL, from one gateway: it writes on one connection. None: there was no server to measure."""
    postgres_us: float | None
    """Microseconds of CPU time of PostgreSQL for such a write."""
    sources: dict[str, str] = {}
    """Which of these figures are from an earlier run of `make bench`."""
    note: str = ""
    """What a reader has to know of the run, as the person who kept it wrote."""


class Assumptions(Struct, frozen=True):
    """What devices and chats do, what a machine has, and estimates of what was not measured."""

    active: float = 0.02
    """The share of devices that an agent works with at one time."""
    call_every: float = 5.0
    """Seconds between two calls of such a device."""
    peak: float = 5.0
    """How many times the usual number of calls there are at a peak."""
    writes_per_call: float = 5.0
    """Rows written for a call: half of the ten of a turn with two calls."""
    frames_per_s: float = 20.0
    """Pieces of an answer that an active chat gets in a second."""
    connection_minutes: float = 10.0
    """How long a connection of a device lasts."""
    ping_every: float = 30.0
    """Seconds between two pings of a connection."""
    cores: int = 8
    """Cores of a machine."""
    memory_gb: float = 16.0
    """Memory of a machine."""
    planned: float = 0.6
    """The share of a core, of memory and of a database that is planned for."""
    most_devices: int = 20_000
    """Devices of one process; 10,000 is the most that `make bench` connects."""
    database_cores: int = 16
    """Cores of the database's machine. Estimate: its writes grow with them."""
    kernel_kb: float = 11.0
    """Estimate: KB of the kernel for a connection."""
    ping_us: float = 100.0
    """Estimate: CPU time of a ping and its answer."""
    owner_us: float = 1_000.0
    """CPU time of a call between nodes on the node of the device, as `python -m bench.scale_sim` measured it."""
    caller_us: float = 3_200.0
    """The same on the node of the caller, which called by REST."""
    nats_us: float = 58.0
    """Estimate: CPU time of NATS for a call."""


class Load(Struct, frozen=True):
    """What so many devices do in a second, at a peak."""

    devices: int
    calls: float
    frames: float
    connects: float
    pings: float
    writes: float


class Layout(Struct, frozen=True):
    """What they need."""

    devices: int
    edges: int
    """Processes that hold connections; without nodes, the one process."""
    agents: int
    """Processes that run turns; 0: those that hold connections do it."""
    machines: int
    nats: int
    databases: tuple[int, int] | None
    """PostgreSQL servers that would be needed, at least and at most; None: SQLite is enough, or it was not measured.

    At least: if its writes grow with its cores. At most: if it takes no more than one gateway got acknowledged.
    """
    return_s: float
    """Seconds until all devices are back after everything was restarted."""
    uses: Mapping[str, float]
    """How much of what is planned for is used, of each part. Of the database: of one, as slow as it can be."""

    @property
    def first_wall(self) -> str:
        """The part that is nearest to its bound, or furthest beyond it."""
        return max(self.uses, key=lambda name: self.uses[name])


def load_of(devices: int, assumed: Assumptions) -> Load:
    """What so many devices do."""
    active = devices * assumed.active
    calls = active / assumed.call_every * assumed.peak
    connects = devices / (assumed.connection_minutes * 60)
    # A connection that comes and goes writes and removes its row.
    writes = calls * assumed.writes_per_call + 2 * connects
    return Load(devices, calls, active * assumed.frames_per_s, connects, devices / assumed.ping_every, writes)


def lay_out(devices: int, base: Base, assumed: Assumptions) -> Layout:
    """One gateway where that is enough, else many nodes."""
    load = load_of(devices, assumed)
    uses = _uses_alone(load, base, assumed)
    if max(uses.values()) <= 1:
        return Layout(devices, 1, 0, 1, 0, None, devices * base.connect_ms / 1000, uses)
    return _many(load, base, assumed)


def _uses_alone(load: Load, base: Base, assumed: Assumptions) -> dict[str, float]:
    """Of one process that does everything, with SQLite."""
    cpu = _edge_us(load, base, assumed, base.call_us) + load.frames * base.frame_us
    return {
        "memory of the gateway": _memory_gb(load.devices, base, assumed) / (assumed.memory_gb * assumed.planned),
        "CPU of the gateway": cpu / (_CORE * assumed.planned),
        "devices of one process": load.devices / assumed.most_devices,
        "writes to SQLite": load.writes / (base.sqlite_per_s * assumed.planned),
    }


def _many(load: Load, base: Base, assumed: Assumptions) -> Layout:
    memory = _memory_gb(load.devices, base, assumed) / (assumed.memory_gb / assumed.cores * assumed.planned)
    edge_cpu = _edge_us(load, base, assumed, assumed.owner_us) / (_CORE * assumed.planned)
    agent_cpu = load.frames * base.frame_us + load.calls * assumed.caller_us
    agent_cpu /= _CORE * assumed.planned
    slowest, fastest = database_writes(base, assumed) or (math.inf, math.inf)
    writing = load.writes / slowest
    edges = math.ceil(max(memory, edge_cpu, load.devices / assumed.most_devices))
    agents = math.ceil(max(agent_cpu, writing))
    nats_cpu = load.calls * assumed.nats_us / (_CORE * assumed.planned)
    uses = {
        "memory of the edge processes": memory / edges,
        "CPU of the edge processes": edge_cpu / edges,
        "devices of the edge processes": load.devices / assumed.most_devices / edges,
        "CPU of the agent processes": agent_cpu / agents,
        "writes to PostgreSQL": writing,
    }
    machines = math.ceil((edges + agents) / assumed.cores)
    return Layout(
        load.devices, edges, agents,
        machines + (machines > 1),  # one may be lost
        _nats_servers(machines, nats_cpu),
        (math.ceil(load.writes / fastest), math.ceil(writing)) if base.postgres_per_s else None,
        load.devices * base.connect_ms / 1000 / edges, uses,
    )  # fmt: skip


def _nats_servers(machines: int, cpu: float) -> int:
    """One beside the nodes of one machine, else three: one may be lost. Each is a process with many threads."""
    return 1 if machines == 1 else max(3, math.ceil(cpu))


def _memory_gb(devices: int, base: Base, assumed: Assumptions) -> float:
    return devices * (base.device_kb + assumed.kernel_kb) / 1024**2


def _edge_us(load: Load, base: Base, assumed: Assumptions, call_us: float) -> float:
    """CPU time in a second of what is done where the connections are."""
    connects = load.connects * base.connect_ms * 1000
    return load.calls * call_us + connects + load.pings * assumed.ping_us


def database_writes(base: Base, assumed: Assumptions) -> tuple[float, float] | None:
    """Writes a second that are planned for one PostgreSQL: at least, at most; None: it was not measured."""
    if base.postgres_per_s is None or base.postgres_us is None:
        return None
    by_cores = _CORE * assumed.database_cores / base.postgres_us
    return base.postgres_per_s * assumed.planned, max(base.postgres_per_s, by_cores) * assumed.planned


def most_on_one_database(base: Base, assumed: Assumptions) -> tuple[int, int] | None:
    """Devices that one PostgreSQL is enough for: surely, and at best; None: it was not measured."""
    if (writes := database_writes(base, assumed)) is None:
        return None
    each = load_of(1_000_000, assumed).writes / 1_000_000
    return int(writes[0] / each), int(writes[1] / each)


def table(layouts: Iterable[Layout]) -> str:
    """The layouts as a table of Markdown."""
    rows = ["| devices | gateway processes | machines | NATS | PostgreSQL | all back after a restart | breaks first |"]
    rows.append("|---|---|---|---|---|---|---|")
    for one in layouts:
        processes = f"{one.edges} edge + {one.agents} agent" if one.agents else "1"
        wall = f"{one.first_wall} ({one.uses[one.first_wall]:.0%})"
        rows.append(
            f"| {one.devices:,} | {processes} | {one.machines} | {one.nats or '–'} | {_databases(one)}"
            f" | {one.return_s:.0f} s | {wall} |"
        )
    return "\n".join(rows)


def _databases(layout: Layout) -> str:
    if layout.agents == 0:
        return "– (SQLite)"
    if layout.databases is None:
        return "not measured"
    least, most = layout.databases
    return f"{least}" if least == most else f"{least} to {most}"
