"""Keys that are lists."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from embodied_launch.keys import help_text, key, light_config, split_list

from embodied.errors import UserError


@dataclass(frozen=True)
class Keys:
    names: tuple[str, ...] = key("names", ("a", "b"), choices=("a", "b", "c"))
    widths: tuple[int, ...] = key("widths", (), minimum=1)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("a,b", ["a", "b"]),
        ("[a, b]", ["a", "b"]),
        ("a", ["a"]),
        ("", []),
        ("[]", []),
        ("[a=[1,2],b]", ["a=[1,2]", "b"]),
        ("a=[1,2],b={x:1,y:2}", ["a=[1,2]", "b={x:1,y:2}"]),
        ("[1],[2]", ["[1]", "[2]"]),
    ],
)
def test_split(text: str, items: list[str]) -> None:
    assert split_list(text) == items


@pytest.mark.parametrize("text", ["a,,b", "[a", "a]", "a,", "[a,b],"])
def test_no_list(text: str) -> None:
    with pytest.raises(UserError, match="cannot read the list"):
        split_list(text)


def test_items_are_typed_and_checked() -> None:
    assert light_config(Keys, ["widths=[64,128]"]) == Keys(("a", "b"), (64, 128))
    with pytest.raises(UserError, match="unknown names 'd'"):
        light_config(Keys, ["names=a,d"])
    with pytest.raises(UserError, match="widths=0: must be at least 1"):
        light_config(Keys, ["widths=3,0"])
    with pytest.raises(UserError, match="widths=x: expected a whole number"):
        light_config(Keys, ["widths=3,x"])


def test_help_shows_them() -> None:
    text = help_text("verb", "", Keys)
    assert "a|b|c" in text
    assert "int,..." in text


def test_a_word_that_stands_twice_is_refused() -> None:
    with pytest.raises(UserError, match="names=a,b,a names a twice"):
        light_config(Keys, ["names=a,b,a"])
    assert light_config(Keys, ["widths=64,64"]).widths == (64, 64)
