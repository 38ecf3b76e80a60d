"""What a noun or an adjective says of a shape: a puck is flat, a tin is not; a bar is long."""

from __future__ import annotations

from collections.abc import Callable

from embodied.types import DescribedObject

FLAT, LONG, CUBIC = 0.6, 1.5, 1.2
"""Height to half width below which a thing is flat; long to short side above which it is long, or no cube."""
_FLAT = frozenset({
    "puck", "coin", "chip", "token", "medal", "counter", "lid", "pill", "disc", "disk", "washer", "button", "plaque",
    "\u91d1\u5e01", "\u786c\u5e01", "\u7247", "\u5706\u7247", "\u997c", "\u5706\u76d8", "\u76d6\u5b50",
})  # fmt: skip
_UPRIGHT = frozenset({
    "tin", "can", "tube", "bottle", "drum", "jar", "canister", "barrel", "cup", "mug", "pillar", "post", "column",
    "\u7f50", "\u7f50\u5b50", "\u7f50\u5934", "\u74f6\u5b50", "\u7b52", "\u6876", "\u676f\u5b50", "\u67f1",
    "\u67f1\u5b50",
})  # fmt: skip
_LONG = frozenset({
    "bar", "stick", "rod", "ingot", "plank", "domino", "beam", "strip", "log", "ruler",
    "\u6761", "\u957f\u6761", "\u68cd\u5b50", "\u6728\u6761", "\u957f\u5757",
})  # fmt: skip
_CUBIC = frozenset({"cube", "die", "dice", "\u7acb\u65b9\u4f53", "\u9ab0\u5b50"})
_ROUND = frozenset({"round", "circular", "\u5706", "\u5706\u5f62", "\u5706\u7684"})
_SQUARE = frozenset({"square", "rectangular", "boxy", "\u65b9", "\u65b9\u5f62", "\u6b63\u65b9\u5f62"})
_ROUND_KINDS = frozenset({"disc", "plate", "ball", "cylinder", "pillar"})

Test = Callable[[DescribedObject], bool]


def shape_of_noun(noun: str) -> Test | None:
    """What is true of the shape of a thing that is called so; None where the noun does not say."""
    word = noun.lower()
    for found in dict.fromkeys((word, word.removesuffix("s"), word.split(" ")[-1].removesuffix("s"))):
        for words, test in ((_FLAT, is_flat), (_UPRIGHT, _is_upright), (_LONG, _is_long), (_CUBIC, _is_cubic)):
            if found in words:
                return test
    return None


def shape_of_adjective(word: str) -> Test | None:
    """What `round`, `square`, `flat` and `long` say; None for other words."""
    if word in _ROUND:
        return lambda item: item.kind in _ROUND_KINDS
    if word in _SQUARE:
        return lambda item: item.kind not in _ROUND_KINDS
    return {
        "flat": is_flat,
        "long": _is_long,
        "elongated": _is_long,
        "cubic": _is_cubic,
        "standing": _is_upright,
        "upright": _is_upright,
    }.get(word)


def is_flat(item: DescribedObject) -> bool:
    x, y, z = item.half_extents_m
    return z < FLAT * min(x, y)


def _is_upright(item: DescribedObject) -> bool:
    return not is_flat(item)


def _is_long(item: DescribedObject) -> bool:
    x, y, z = sorted(item.half_extents_m)
    return z > LONG * y


def _is_cubic(item: DescribedObject) -> bool:
    return max(item.half_extents_m) <= CUBIC * min(item.half_extents_m)
