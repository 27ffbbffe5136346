"""Figures of a scenario, each with what was promised of it."""

from collections.abc import Iterable, Sequence

from msgspec import Struct


class Figure(Struct, frozen=True):
    """A number, and whether it keeps the promise."""

    name: str
    value: float
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None
    examples: tuple[str, ...] = ()
    """Of what broke the promise."""

    @property
    def holds(self) -> bool:
        """Whether it is what was promised."""
        above = self.at_most is not None and self.value > self.at_most
        below = self.at_least is not None and self.value < self.at_least
        return not above and not below

    @property
    def promise(self) -> str:
        """What was promised, in a word."""
        if self.at_most is not None:
            return "none" if self.at_most == 0 else f"≤ {_number(self.at_most)}"
        return "" if self.at_least is None else f"≥ {_number(self.at_least)}"


def none_of(name: str, found: Iterable[str]) -> Figure:
    """How many there were of what must not be."""
    all_found = tuple(found)
    return Figure(name, len(all_found), at_most=0, examples=all_found[:3])


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of all values does not exceed; 0 without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def table(scenario: str, seed: int, seconds: float, figures: Sequence[Figure]) -> str:
    """The figures as lines to print."""
    lines = [f"{scenario} (seed {seed}, {seconds:.1f} s)"]
    for figure in figures:
        value = f"{_number(figure.value)} {figure.unit}".strip()
        mark = "" if not figure.promise else "kept" if figure.holds else "BROKEN"
        lines.append(f"  {figure.name:<46} {value:>14}   {figure.promise:<10} {mark}".rstrip())
        lines += [f"      {example}" for example in figure.examples if not figure.holds]
    return "\n".join(lines)


def broken(figures: Iterable[Figure]) -> list[str]:
    """What was promised and not kept."""
    return [
        f"{figure.name}: {_number(figure.value)} {figure.unit} ({figure.promise}) {' | '.join(figure.examples)}"
        for figure in figures
        if not figure.holds
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:,.2f}"
