"""Plates and import contracts say what the rooms really import."""

import pytest

from tests.docs.rooms import contracts, named_imports, plate_of, real_imports, rooms

REAL = real_imports()
LAYERS = next(contract["layers"] for contract in contracts() if contract.get("containers") == ["handspan"])
PROTECTED = [contract for contract in contracts() if contract["type"] == "protected"]


@pytest.mark.parametrize("room", rooms())
def test_every_room_has_a_plate(room: str) -> None:
    plate = plate_of(room)
    assert [line for line in ("Holds:", "Imports:", "To add:") if line not in plate] == [], f"{room}: {plate!r}"


@pytest.mark.parametrize("room", rooms())
def test_a_plate_names_exactly_what_the_room_imports(room: str) -> None:
    assert named_imports(room) == REAL[room], f"The plate of {room} begins its line with: {_line(REAL[room])}"


@pytest.mark.parametrize("room", sorted({room for room in set().union(*REAL.values()) if "." not in room} - {"core"}))
def test_a_contract_names_exactly_the_rooms_that_import_a_room(room: str) -> None:
    allowed = [
        contract["allowed_importers"] for contract in PROTECTED if f"handspan.{room}" in contract["protected_modules"]
    ]
    real = sorted(importer for importer in rooms() if "." not in importer and room in REAL[importer])
    assert [sorted({name.split(".")[1] for name in names}) for names in allowed] == [real]


def _line(imported: set[str]) -> str:
    """The line that a plate should have: the gateway's own parts first, then rooms from the highest layer down."""
    order = [room for layer in LAYERS for room in layer.split(" | ")]
    named = sorted(name for name in imported if "." in name) + [room for room in order if room in imported]
    return f"Imports: {', '.join(named) or 'nothing of ours'}."
