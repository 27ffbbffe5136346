"""The picture of our figures beside the peers' is what was measured, and says so."""

import xml.etree.ElementTree as ElementTree

import msgspec
import pytest
from bench import chart
from bench.figures import Figure

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("theme", chart.COLOURS)
def test_the_pictures_show_what_was_measured(theme: str) -> None:
    measured = msgspec.json.decode(chart.MEASURED.read_bytes(), type=chart.Measured)
    assert (chart.FOLDER / f"peers-{theme}.svg").read_text(encoding="utf-8") == chart.draw(measured, theme)


def test_a_picture_has_a_bar_for_each_value_the_date_and_the_machine() -> None:
    figures = [Figure("dispatch_us", 5.0, "us", peers={"mcp": 50.0, "a<b": 500.0}), Figure("start", 1.0, "x")]
    measured = chart.collect(figures)
    tree = ElementTree.fromstring(chart.draw(measured, "light"))
    bars = [float(bar.attrib["width"]) for bar in tree.iter(f"{SVG}rect")]
    assert len(bars) == 3 and bars == sorted(bars)
    texts = [text.text or "" for text in tree.iter(f"{SVG}text")]
    assert {"Handspan", "MCP SDK", "a<b"} <= set(texts)
    assert any(measured.when in text and measured.machine in text for text in texts)
