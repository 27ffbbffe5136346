"""Figures: what is counted, how it is written, and that no stranger makes up labels."""

import re
from pathlib import Path

import pytest

from handspan.core.bus import CallCompleted
from handspan.core.calls import UNKNOWN_TOOL, ToolFacts
from handspan.core.messages import Usage
from handspan.core.nodes import NodeRecord
from handspan.core.principals import Origin
from handspan.gateway import metrics
from handspan.gateway.metrics import Counter, Histogram, Metrics, node_lines
from handspan.gateway.one_node import OneNode

pytestmark = pytest.mark.anyio

LINE = re.compile(r'[a-z_]+(\{[a-z]+="([^"\\]|\\.)*"(,[a-z]+="([^"\\]|\\.)*")*\})? (-?[0-9.e+-]+|\+Inf)')


def call(facts: ToolFacts, status: str = "success") -> CallCompleted:
    return CallCompleted("me", "", "1", "a_tool", facts, status, 0.02)


async def test_every_line_is_one_that_prometheus_reads() -> None:
    figures = Metrics(OneNode(Path()))
    figures.count_call(call(ToolFacts(Origin("device", "phone"), "1", False)))
    figures.watch("handspan_devices", "Devices \\ that\nare here.", lambda: 2)
    lines = (await figures.text()).splitlines()
    assert all(LINE.fullmatch(line) or re.match(r"# (HELP|TYPE) [a-z_]+ \S", line) for line in lines)
    assert "handspan_devices 2" in lines and "# HELP handspan_devices Devices \\\\ that\\nare here." in lines
    assert 'handspan_calls_total{origin="device",status="success"} 1' in lines
    assert 'handspan_call_seconds_bucket{origin="device",le="0.01"} 0' in lines
    assert 'handspan_call_seconds_bucket{origin="device",le="0.05"} 1' in lines
    assert 'handspan_call_seconds_bucket{origin="device",le="+Inf"} 1' in lines
    assert 'handspan_call_seconds_count{origin="device"} 1' in lines
    assert any(line.startswith("handspan_event_loop_lag_seconds ") for line in lines)
    resident = next(line for line in lines if line.startswith("handspan_process_resident_bytes "))
    assert int(resident.split()[1]) > 1_000_000
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names))


async def test_calls_are_counted_by_origin_and_code() -> None:
    figures = Metrics(OneNode(Path()))
    figures.count_call(call(UNKNOWN_TOOL, "tool_not_found"))
    assert figures.calls.value("other", "tool_not_found") == 1


def test_a_label_that_nobody_knows_is_counted_as_other() -> None:
    counter = Counter("c", "Counts.", ("kind", ("late",)))
    for number in range(1000):
        counter.add(f"made up {number}")
    counter.add("late", count=2)
    assert list(counter.lines())[2:] == ['c{kind="late"} 2', 'c{kind="other"} 1000']


def test_labels_are_escaped() -> None:
    counter = Counter("c", "Counts.", ("kind", ('a"b\\c\nd',)))
    counter.add('a"b\\c\nd')
    assert list(counter.lines())[2] == 'c{kind="a\\"b\\\\c\\nd"} 1'


def test_a_counter_without_labels_begins_at_0() -> None:
    counter = Counter("c", "Counts.")
    assert list(counter.lines())[2] == "c 0"
    counter.add(count=0.5)
    assert list(counter.lines())[2] == "c 0.5"


def test_a_histogram_counts_each_step_with_all_below_it() -> None:
    histogram = Histogram("h", "Takes.", "origin", ("mcp",), (1.0, 2.0))
    for seconds in (0.5, 1.0, 1.5, 5.0):
        histogram.add("mcp", seconds)
    histogram.add("nobody", 1.0)
    assert list(histogram.lines())[2:7] == [
        'h_bucket{origin="mcp",le="1"} 2',
        'h_bucket{origin="mcp",le="2"} 3',
        'h_bucket{origin="mcp",le="+Inf"} 4',
        'h_sum{origin="mcp"} 8',
        'h_count{origin="mcp"} 4',
    ]


def test_tokens_that_nobody_counted_are_not_counted() -> None:
    figures = Metrics(OneNode(Path()))
    figures.count_usage(Usage(input=10, output=None, reasoning=3))
    figures.count_usage(Usage(input=5))
    assert figures.tokens.value("input") == 15 and figures.tokens.value("reasoning") == 3
    assert figures.tokens.value("output") == 0


def test_what_a_node_tells_of_its_counts_is_without_labels() -> None:
    figures = Metrics(OneNode(Path()))
    figures.count_call(call(ToolFacts(Origin("device", "phone"), "1", False)))
    figures.count_call(call(UNKNOWN_TOOL, "tool_not_found"))
    figures.count_usage(Usage(input=10, output=3))
    told = figures.totals()
    assert (told["calls_total"], told["failed_calls_total"]) == (2, 1)
    assert (told["input_tokens_total"], told["output_tokens_total"], told["turns_total"]) == (10, 3, 0)


def test_each_node_has_one_line_and_all_have_a_sum_also_where_two_nodes_have_one_name() -> None:
    nodes = [
        NodeRecord(f"id{number}", name, "", "1", "all", 0.0, 0.0, False, {"devices": number, "calls_total": 10.0})
        for number, name in enumerate(("b", "a", "a"), 1)
    ]
    lines = node_lines(nodes)
    assert [line for line in lines if not line.startswith("# HELP")] == [
        "# TYPE handspan_node_calls_total counter",
        'handspan_node_calls_total{node="a"} 20',
        'handspan_node_calls_total{node="b"} 10',
        "# TYPE handspan_all_calls_total gauge",
        "handspan_all_calls_total 30",
        "# TYPE handspan_node_devices gauge",
        'handspan_node_devices{node="a"} 5',
        'handspan_node_devices{node="b"} 1',
        "# TYPE handspan_all_devices gauge",
        "handspan_all_devices 6",
    ]


def test_where_the_system_does_not_tell_memory_is_0(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(metrics, "open", refuse, raising=False)
    assert metrics.resident_bytes() == 0.0
