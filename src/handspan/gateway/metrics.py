"""Metrics of the running gateway, in Prometheus' text format 0.0.4.

Labels have few known values, such as kinds of origin and error codes; never a name that a client or a person chose.
"""

import asyncio
import contextlib
import os
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final, get_args

from handspan.core.budgets import LimitState, to_dollars
from handspan.core.bus import CallCompleted
from handspan.core.errors import ERROR_TYPES, StoreError
from handspan.core.events import EndReason
from handspan.core.messages import Usage
from handspan.core.nodes import NodeRecord, Nodes
from handspan.core.principals import OriginKind
from handspan.core.version import VERSION

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OTHER: Final = "other"
"""The label's value for everything that is not known."""
_BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Counter:
    """A count that only grows, for each combination of label values."""

    def __init__(self, name: str, meaning: str, *labels: tuple[str, Sequence[str]]) -> None:
        """A label is a name and its known values; any other value is counted as `other`."""
        self.name = name
        self.meaning = meaning
        self._labels = tuple(label for label, _ in labels)
        self._known = tuple(frozenset(values) for _, values in labels)
        self._counts: dict[tuple[str, ...], float] = {} if labels else {(): 0.0}

    def add(self, *values: str, count: float = 1.0) -> None:
        """Increase the count for these label values."""
        if values in self._counts:  # counted before, so they are known
            self._counts[values] += count
            return
        key = tuple(value if value in known else OTHER for value, known in zip(values, self._known, strict=True))
        self._counts[key] = self._counts.get(key, 0.0) + count

    def value(self, *values: str) -> float:
        """Return the count for these label values."""
        return self._counts.get(values, 0.0)

    def total(self, **where: str) -> float:
        """Return the sum over all label values; `where`: only over those with these values."""
        wanted = {self._labels.index(label): value for label, value in where.items()}
        return sum(
            count for values, count in self._counts.items() if all(values[at] == one for at, one in wanted.items())
        )

    def lines(self) -> Iterator[str]:
        """Yield the lines for Prometheus."""
        yield from _heading(self.name, self.meaning, "counter")
        for values, count in sorted(self._counts.items()):
            yield f"{self.name}{_label_text(zip(self._labels, values, strict=True))} {_number(count)}"


class Histogram:
    """Durations, counted in buckets."""

    def __init__(self, name: str, meaning: str, label: str, known: Sequence[str], buckets: Sequence[float]) -> None:
        self.name = name
        self.meaning = meaning
        self._label = label
        self._known = frozenset(known)
        self._buckets = tuple(buckets)
        self._counts: dict[str, list[int]] = defaultdict(lambda: [0] * (len(self._buckets) + 1))
        self._sums: dict[str, float] = defaultdict(float)

    def add(self, value: str, seconds: float) -> None:
        """Count one duration."""
        key = value if value in self._known else OTHER
        self._counts[key][bisect_left(self._buckets, seconds)] += 1
        self._sums[key] += seconds

    def lines(self) -> Iterator[str]:
        """Yield the lines for Prometheus: each bucket counts all smaller ones too."""
        yield from _heading(self.name, self.meaning, "histogram")
        for value, counts in sorted(self._counts.items()):
            total = 0
            for bound, count in zip((*self._buckets, None), counts, strict=True):
                total += count
                limit = "+Inf" if bound is None else _number(bound)
                yield f"{self.name}_bucket{_label_text([(self._label, value), ('le', limit)])} {total}"
            labels = _label_text([(self._label, value)])
            yield f"{self.name}_sum{labels} {_number(self._sums[value])}"
            yield f"{self.name}_count{labels} {total}"


class Metrics:
    """All metrics. Other parts count events here; a value that can be looked up is `watch`ed instead."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        kinds, statuses = get_args(OriginKind), ("success", *ERROR_TYPES)
        self.calls = Counter(
            "handspan_calls_total", "Tool calls that have their result.", ("origin", kinds), ("status", statuses)
        )
        took = "How long tool calls took."
        self.call_seconds = Histogram("handspan_call_seconds", took, "origin", kinds, buckets=_BUCKETS)
        self.results = Counter(
            "handspan_remote_results_total",
            "Results of clients that did not count: too late, a second one, or for an unknown call.",
            ("kind", ("late", "second", "unknown")),
        )
        self.turns = Counter("handspan_turns_total", "Turns that ended.", ("reason", get_args(EndReason)))
        self.tokens = Counter(
            "handspan_model_tokens_total",
            "Tokens that models reported as used.",
            ("kind", ("input", "output", "cached", "reasoning")),
        )
        self.requests = Counter(
            "handspan_http_requests_total", "HTTP requests.", ("status", ("2xx", "3xx", "4xx", "5xx"))
        )
        self._counters = (self.calls, self.call_seconds, self.results, self.turns, self.tokens, self.requests)
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self._lists: list[Callable[[], Awaitable[list[str]]]] = []
        self._began = time.time()
        self.watch("handspan_process_resident_bytes", "Memory that the process holds.", resident_bytes)
        self.watch("handspan_start_seconds", "When the gateway started, since 1970.", lambda: self._began)

    def watch(self, name: str, meaning: str, look: Callable[[], float]) -> None:
        """Show what `look` returns when the metrics are read."""
        self._gauges[name] = (meaning, look)

    def list_lines(self, look: Callable[[], Awaitable[list[str]]]) -> None:
        """Show the lines, too, that `look` returns when the metrics are read."""
        self._lists.append(look)

    def count_call(self, call: CallCompleted) -> None:
        """Count a call that has its result."""
        origin = call.tool.origin
        kind = OTHER if origin is None else origin.kind
        self.calls.add(kind, call.status)
        self.call_seconds.add(kind, call.duration)

    def count_usage(self, usage: Usage) -> None:
        """Count the tokens of a reply. A count that the model did not report stays uncounted."""
        for kind in ("input", "output", "cached", "reasoning"):
            if count := getattr(usage, kind):
                self.tokens.add(kind, count=count)

    def totals(self) -> dict[str, float]:
        """Return what this node tells the others of its counts, without their labels."""
        calls = self.calls.total()
        return {
            "calls_total": calls,
            "failed_calls_total": calls - self.calls.total(status="success"),
            "turns_total": self.turns.total(),
            "input_tokens_total": self.tokens.value("input"),
            "output_tokens_total": self.tokens.value("output"),
            "requests_total": self.requests.total(),
        }

    async def text(self) -> str:
        """Return all metrics in Prometheus' format."""
        before = time.perf_counter()
        await asyncio.sleep(0)
        lag = time.perf_counter() - before
        lines = [line for counter in self._counters for line in counter.lines()]
        for name, (meaning, look) in self._gauges.items():
            lines += [*_heading(name, meaning, "gauge"), f"{name} {_number(look())}"]
        lines += [
            *_heading("handspan_event_loop_lag_seconds", "How long one turn of the event loop took just now.", "gauge"),
            f"handspan_event_loop_lag_seconds {_number(lag)}",
            *_heading("handspan_build_info", "Which version this is.", "gauge"),
            f"handspan_build_info{_label_text([('version', VERSION)])} 1",
        ]
        with contextlib.suppress(StoreError):  # the database is away
            for look_up in self._lists:
                lines += await look_up()
            lines += node_lines(await self._nodes.nodes())
        return "\n".join(lines) + "\n"


def resident_bytes() -> float:
    """Return the memory of this process; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return float(int(file.read().split()[1]) * _PAGE)
    except (OSError, IndexError, ValueError):
        return 0.0


def budget_lines(states: Iterable[LimitState]) -> list[str]:
    """Return how far the budgets for all are used, in Prometheus' format. Names of owners and agents stay out."""
    lines: list[str] = []
    for state in states:
        amounts = {"limit": state.most, "spent": state.spent, "reserved": state.held, "left": state.left}
        for kind, nano in amounts.items():
            labels = _label_text([("period", state.limit.period), ("kind", kind)])
            lines.append(f"handspan_budget_dollars{labels} {_number(to_dollars(nano))}")
    meaning = "The budget for all in US dollars: what may be spent, is spent, reserved and left."
    return [*_heading("handspan_budget_dollars", meaning, "gauge"), *lines] if lines else []


def node_lines(nodes: Iterable[NodeRecord]) -> list[str]:
    """Return what all nodes last told about themselves, and the sums, in Prometheus' format.

    Nodes of one name are one line: Prometheus refuses all metrics when a line comes twice.
    """
    told: dict[str, dict[str, float]] = {}
    """What was told, by the name of the metric and of the node."""
    for node in nodes:
        for name, value in node.load.items():
            by_node = told.setdefault(name, {})
            by_node[node.name] = by_node.get(node.name, 0.0) + value
    lines: list[str] = []
    for name, by_node in sorted(told.items()):
        metric, kind = f"handspan_node_{name}", "counter" if name.endswith("_total") else "gauge"
        lines += _heading(metric, "What each node last told the others about itself.", kind)
        lines += [f"{metric}{_label_text([('node', one)])} {_number(value)}" for one, value in sorted(by_node.items())]
        # Never a counter: a node that leaves takes its part with it.
        lines += _heading(f"handspan_all_{name}", "The sum over all nodes that are there.", "gauge")
        lines.append(f"handspan_all_{name} {_number(sum(by_node.values()))}")
    return lines


def _heading(name: str, meaning: str, kind: str) -> tuple[str, str]:
    escaped = meaning.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {name} {escaped}", f"# TYPE {name} {kind}"


def _label_text(pairs: Iterable[tuple[str, str]]) -> str:
    text = ",".join(f'{name}="{_escape(value)}"' for name, value in pairs)
    return f"{{{text}}}" if text else ""


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
