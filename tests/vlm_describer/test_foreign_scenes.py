"""Scenes that no describer was made for: little is said of them, and that is true. Run with `-s` to read it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from vlm_describer.clip import NamingLooker, load_clip_looker
from vlm_describer.locate import locate
from vlm_describer.naming import GeometryNamer
from vlm_describer.seeing import SeeingDescriber

sys.path.insert(0, str(Path(__file__).parent))
from foreign_scenes import ANT, ARM, KITCHEN, installed, shown, verdict

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("names", "silent"), [("geometry", 0), ("sim-clip", 1)])
def test_what_is_said_is_true(names: str, silent: int) -> None:
    shipped = load_clip_looker() if names == "sim-clip" else (NamingLooker(GeometryNamer()), None)
    describer = SeeingDescriber("clip", *shipped)
    verdicts = []
    for foreign in (each for each in (KITCHEN, ANT, ARM) if installed(each)):
        for number, seen in enumerate(shown(foreign)):
            found = describer.describe((seen.frame,))
            verdicts.append(verdict(foreign, seen, locate(seen.frame), found))
            print(f"\n{foreign.name} {number}: {found.caption}\n  true {verdicts[-1].true}")
            print(f"  wrong {verdicts[-1].wrong}")
    wrong, true = (sum(len(getattr(each, side)) for each in verdicts) for side in ("wrong", "true"))
    print(f"\n{len(verdicts)} frames, {true} true statements, {wrong} wrong")
    assert wrong <= 0.05 * (wrong + true)
    assert sum(not each.true for each in verdicts) <= silent
