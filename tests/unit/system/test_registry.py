from __future__ import annotations

import pytest

from orderfree.errors import ConfigError
from orderfree.system.registry import Registry


@pytest.fixture
def fruits() -> Registry[str]:
    registry: Registry[str] = Registry("fruit")
    registry.register("pear")("a pear")
    registry.register("apple")("an apple")
    return registry


def test_what_is_registered_is_found(fruits: Registry[str]) -> None:
    assert fruits["apple"] == "an apple"
    assert "pear" in fruits
    assert "fig" not in fruits
    assert fruits.names() == ["apple", "pear"]
    assert sorted(fruits) == ["apple", "pear"]


def test_register_gives_back_what_it_was_given(fruits: Registry) -> None:
    @fruits.register("fig")
    class Fig: ...

    assert fruits["fig"] is Fig


def test_a_taken_name_is_refused_and_stays_as_it_was(fruits: Registry[str]) -> None:
    with pytest.raises(ConfigError, match="the fruit name 'apple' is taken"):
        fruits.register("apple")("another")
    assert fruits["apple"] == "an apple"


def test_an_unknown_name_is_answered_with_the_list_and_the_nearest(fruits: Registry[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        fruits["aple"]
    assert str(caught.value) == "unknown fruit 'aple'; known: apple, pear. Did you mean 'apple'?"
    with pytest.raises(ConfigError) as caught:
        fruits["xyz"]
    assert str(caught.value) == "unknown fruit 'xyz'; known: apple, pear."
