"""An index of tools by the words of their names, descriptions and parameters (SPEC R4)."""

import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final

from handspan.core.tool import ToolSpec

_WORD: Final = r"[^\W_]+"
_CAMEL: Final = r"(?<=[a-z0-9])(?=[A-Z])"
"""Between the words of `readFile`."""
_UNSPACED: Final = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}"
"""Scripts that write words without spaces between them: each pair of characters counts as a word."""
_NAME_WEIGHT: Final = 3
_MAX_TEXT: Final = 2000
"""The most characters of a tool's description that count, and of the texts of all its parameters."""
_SATURATION: Final = 1.2  # k1 of BM25: how much a repeated word still adds
_LENGTH_SHARE: Final = 0.5  # b of BM25: how much a long text takes away
_PREFIX_SHARE: Final = 0.5
_SHORTEST_PREFIX: Final = 3


class ToolIndex:
    """Ranks tools by BM25. It is made once for a list of tools and never changes."""

    def __init__(self, specs: Iterable[ToolSpec]) -> None:
        counts = {spec.name: _count_words(spec) for spec in specs}
        lengths = {name: sum(words.values()) for name, words in counts.items()}
        average = sum(lengths.values()) / max(len(lengths), 1) or 1.0
        self._count = len(counts)
        self._names = {name.lower(): name for name in counts}
        self._scores: dict[str, list[tuple[str, float]]] = defaultdict(list)
        """The tools that have each word, with the weight of the word in each tool."""
        for name, words in counts.items():
            norm = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * lengths[name] / average)
            for word, count in words.items():
                self._scores[word].append((name, count * (_SATURATION + 1) / (count + norm)))

    def rank(self, text: str) -> Iterator[str]:
        """Yield the names of the tools that have a word of this text, the best first, equal ones by name."""
        totals: dict[str, float] = defaultdict(float)
        for word in dict.fromkeys(_split_words(re.sub(_CAMEL, " ", text))):
            for known, share in self._find_known(word):
                scores = self._scores[known]
                weight = share * math.log(1 + (self._count - len(scores) + 0.5) / (len(scores) + 0.5))
                for name, score in scores:
                    totals[name] += score * weight
        for part in text.lower().split():  # a tool's whole name means that tool, whatever words the name has
            if part in self._names:
                totals[self._names[part]] = math.inf
        ranked = [(-score, name) for name, score in totals.items()]
        heapq.heapify(ranked)
        while ranked:
            yield heapq.heappop(ranked)[1]

    def _find_known(self, word: str) -> list[tuple[str, float]]:
        """Return the indexed words for a word of a query, with weights: itself, or else those that begin with it."""
        if word in self._scores:
            return [(word, 1.0)]
        if len(word) < _SHORTEST_PREFIX:
            return []
        return [(known, _PREFIX_SHARE) for known in self._scores if known.startswith(word)]


def _count_words(spec: ToolSpec) -> Counter[str]:
    """Return how often each word is in the tool's name, description and parameters; one in its name counts more."""
    names, texts = [], [spec.description[:_MAX_TEXT]]
    properties = spec.parameters.get("properties")
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        names.append(name)
        description = schema.get("description") if isinstance(schema, dict) else None
        if isinstance(description, str):
            texts.append(description[:_MAX_TEXT])
    parameters = " ".join((re.sub(_CAMEL, " ", " ".join(names)[:_MAX_TEXT]), *texts[1:]))[:_MAX_TEXT]
    own = _split_words(re.sub(_CAMEL, " ", spec.name))
    return Counter([*own * _NAME_WEIGHT, *_split_words(texts[0]), *_split_words(parameters)])


def _split_words(text: str) -> list[str]:
    return [term for word in re.findall(_WORD, text.lower()) for term in _normalize(word)]


@lru_cache(maxsize=8192)
def _normalize(word: str) -> tuple[str, ...]:
    """Return the word without its plural ending. For a script without spaces, return each pair of characters."""
    if not word.isascii() and re.fullmatch(_UNSPACED, word):
        return tuple(first + second for first, second in pairwise(word))
    if len(word) > 4 and word.endswith("ies"):
        return (f"{word[:-3]}y",)
    is_plural = len(word) > 3 and word.endswith("s") and not word.endswith("ss")
    return (word[:-1] if is_plural else word,)
