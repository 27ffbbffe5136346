"""Plates and import contracts say what the rooms really import."""

import pytest

from tests.docs.rooms import contracts, named_imports, plate_of, real_imports, rooms

TOP = [room for room in rooms() if "." not in room]
LAYERS = next(contract["layers"] for contract in contracts() if contract.get("containers") == ["handspan"])
PROTECTED = [contract for contract in contracts() if contract["type"] == "protected"]


@pytest.mark.parametrize("room", rooms())
def test_every_room_has_a_plate(room: str) -> None:
    plate = plate_of(room)
    assert [line for line in ("Holds:", "Imports:", "To add:") if line not in plate] == [], f"{room}: {plate!r}"


@pytest.mark.parametrize("room", rooms())
def test_a_plate_names_exactly_what_the_room_imports(room: str) -> None:
    real = real_imports()[room]
    assert named_imports(room) == real, f"The plate of {room} begins its line with: {_line(real)}"


@pytest.mark.parametrize("room", sorted({*TOP} - {"core"}))
def test_a_contract_names_exactly_the_rooms_that_import_a_room(room: str) -> None:
    real = [importer for importer in TOP if room in real_imports()[importer]]
    allowed = [one["allowed_importers"] for one in PROTECTED if f"handspan.{room}" in one["protected_modules"]]
    assert [sorted({name.split(".")[1] for name in names}) for names in allowed] == ([real] if real else [])


def _line(imported: set[str]) -> str:
    """The line that a plate should have: the gateway's own parts first, then rooms from the highest layer down."""
    order = [room for layer in LAYERS for room in layer.split(" | ")]
    named = sorted(name for name in imported if "." in name) + [room for room in order if room in imported]
    return f"Imports: {', '.join(named) or 'nothing of ours'}."
