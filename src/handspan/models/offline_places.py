"""Time zones by the names that people use: cities, some countries, and the zones' own names."""

import functools
from collections.abc import Mapping, Sequence
from typing import Final

from handspan.models.offline_words import word_set

_LONGEST: Final = 3
"""Words of a place's name, as in Port of Spain."""

# Places whose zone is named after another city.
_ELSEWHERE: Final = {
    "America/Los_Angeles": "San Francisco, Seattle, San Diego, Las Vegas, Portland, California",
    "America/New_York": "Washington, Boston, Miami, Philadelphia, Atlanta, NYC",
    "America/Chicago": "Dallas, Houston, Austin, Texas",
    "America/Toronto": "Ottawa, Montreal",
    "America/Sao_Paulo": "Rio, Rio de Janeiro, Brasilia, São Paulo",
    "Asia/Kolkata": "Mumbai, Delhi, New Delhi, Bangalore, India",
    "Asia/Shanghai": "Beijing, Shenzhen, Peking, China",
    "Asia/Seoul": "Korea, South Korea",
    "Asia/Tokyo": "Osaka, Kyoto, Tokio",
    "Asia/Ho_Chi_Minh": "Hanoi, Vietnam",
    "Australia/Sydney": "Canberra",
    "Europe/Berlin": "Munich, Hamburg, Frankfurt, Cologne, Stuttgart, Germany, München, Köln, Deutschland",
    "Europe/Kyiv": "Kiew, Ukraine",
    "Europe/London": "England, Scotland, Manchester, Edinburgh",
    "Europe/Madrid": "Barcelona, Spain",
    "Europe/Moscow": "Moskau",
    "Europe/Paris": "Lyon, Marseille, France",
    "Europe/Prague": "Prag",
    "Europe/Rome": "Milan, Naples, Venice, Italy, Rom",
    "Europe/Vienna": "Wien, Austria",
    "Europe/Warsaw": "Krakow, Warschau",
    "Europe/Zurich": "Geneva, Bern, Switzerland, Zürich",
}
# Zones whose names are everyday words: taken only when the text has them in capitals.
_EVERYDAY: Final = word_set(
    "central eastern east west mountain pacific factory local localtime universal general general south north "
    "knox samoa continental island easter troll reunion marquesas center act met est cet eet wet mst hst gb nz"
)


@functools.lru_cache(maxsize=1)
def known_places() -> Mapping[str, str]:
    """Place, in lower case with `_` for blanks → time zone. The first call looks through the disk: not on the loop."""
    import zoneinfo  # noqa: PLC0415 - 4 ms that only a question about a zone need pay

    zones = sorted(zoneinfo.available_timezones(), key=_rank)
    places = {zone.casefold(): zone for zone in zones} | {zone.rpartition("/")[2].casefold(): zone for zone in zones}
    for zone, names in _ELSEWHERE.items():
        places |= {name.casefold().replace(" ", "_"): zone for name in names.split(", ")}
    return places


def zones_in(words: Sequence[str], places: Mapping[str, str]) -> list[tuple[int, int, str]]:
    """The time zones that these words name: index of the first word, index after the last one, zone."""
    found: list[tuple[int, int, str]] = []
    at = 0
    while at < len(words):
        for length in range(min(_LONGEST, len(words) - at), 0, -1):
            name = "_".join(words[at : at + length])
            zone = places.get(name.casefold())
            if zone and (name.casefold() not in _EVERYDAY or name.isupper()):
                found.append((at, at + length, zone))
                at += length - 1
                break
        at += 1
    return found


def _rank(zone: str) -> tuple[int, str]:
    """Of several zones with the same last name the last in this order is meant: Asia/Singapore, UTC, Cuba."""
    if zone.startswith(("Etc/", "US/", "Brazil/", "Canada/", "Chile/", "Mexico/")):
        return 0, zone
    return (2 if "/" in zone else 1), zone
