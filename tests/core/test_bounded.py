"""A dict that forgets its oldest entry."""

from handspan.core.bounded import BoundedDict


def test_an_entry_beyond_the_limit_makes_it_forget_the_first_one() -> None:
    names: BoundedDict[str, int] = BoundedDict(2)
    for number, name in enumerate("abc"):
        names[name] = number
    assert dict(names) == {"b": 1, "c": 2}


def test_every_way_to_add_entries_keeps_to_the_limit() -> None:
    names: BoundedDict[str, int] = BoundedDict(2)
    names.update(a=1, b=2, c=3)
    assert list(names) == ["b", "c"]
    assert names.setdefault("d", 4) == 4
    assert list(names) == ["c", "d"]
    names |= {"e": 5}
    assert list(names) == ["d", "e"]


def test_an_entry_that_is_set_again_stays_in_its_place_and_forgets_no_other() -> None:
    names: BoundedDict[str, int] = BoundedDict(2)
    names.update(a=1, b=2)
    names["a"] = 3
    assert dict(names) == {"a": 3, "b": 2}
    names["c"] = 4
    assert dict(names) == {"b": 2, "c": 4}


def test_with_each_use_moved_to_the_end_the_entry_that_was_used_longest_ago_is_forgotten() -> None:
    names: BoundedDict[str, int] = BoundedDict(2)
    names.update(a=1, b=2)
    names.move_to_end("a")
    names["c"] = 3
    assert dict(names) == {"a": 1, "c": 3}


def test_the_entries_that_the_limit_removes_are_passed_on_and_no_others() -> None:
    forgotten: list[tuple[str, int]] = []
    names: BoundedDict[str, int] = BoundedDict(2, lambda name, number: forgotten.append((name, number)))
    names.update(a=1, b=2)
    del names["b"]
    names.update(c=3, d=4)
    assert forgotten == [("a", 1)]


def test_a_limit_of_zero_keeps_nothing() -> None:
    names: BoundedDict[str, int] = BoundedDict(0)
    names["a"] = 1
    assert not names
