"""`embodied bench suite=describer`: rows, what is printed of them, the page of examples, and going on after a kill."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embodied_launch.bench import describer, describer_page, describer_rows, describer_tables
from embodied_launch.bench.describer_rows import Subject
from embodied_launch.bench.table import Table
from embodied_launch.fitting import HELD_OUT_SPLITS, shares_of
from embodied_launch.verbs.bench import KEYS
from numpy.typing import NDArray

from embodied import text_encoder
from embodied.errors import IntegrityError, UserError
from embodied.report.examples import Example
from embodied.types import FloatArray
from robots.randomize import RandomizerConfig, labelled_frames
from vlm_describer.blip import CaptionLooker
from vlm_describer.blip_model import Sentence
from vlm_describer.calibration import Calibration
from vlm_describer.dataset import FrameSet, write_frames
from vlm_describer.words_report import SWAPS

Run = Callable[..., tuple[Table, list[str]]]
TIMES = ("cpu_ms", "cpu_p95_ms")


class FakeEncoder:
    """Vectors that depend on the text and mean nothing."""

    def encode(self, texts: Sequence[str]) -> FloatArray:
        rows = [np.random.default_rng(list(text.encode())).normal(size=8) for text in texts]
        return np.array([row / np.linalg.norm(row) for row in rows], dtype=np.float32)

    def pieces(self, text: str) -> tuple[str, ...]:
        return (text,)


class Says:
    """A captioner that says one thing."""

    identity = "says"

    def captions(self, pictures: Sequence[NDArray[np.uint8]], prompt: str = "") -> list[Sentence]:
        return [Sentence("a table with a red block, a red block and a red block", 0.9, ())] * len(pictures)


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scene with two views of each held-out split."""
    folder = tmp_path_factory.mktemp("sets")
    for split in HELD_OUT_SPLITS:
        config = RandomizerConfig(split=split, views=2, arm=0.0, shares=(1.0, 0.0, 0.0, 0.0))
        frames = write_frames(folder / split, lambda _, config=config: labelled_frames(config, 1, 1), 1, {"views": 2})
        frames.close()
    return folder


@pytest.fixture
def run(sets: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs the suite on those frames: `run(out, describers, resume=...)`."""
    monkeypatch.setattr(describer, "frame_set", lambda folder, split, *rest: FrameSet(sets / split))
    # The scenes were drawn with other shares than the suite's own.
    drawn = RandomizerConfig
    monkeypatch.setattr(
        "robots.randomize.RandomizerConfig", lambda **told: drawn(arm=0.0, shares=(1.0, 0.0, 0.0, 0.0), **told)
    )

    def go(out: Path, *describers: str, resume: bool = False) -> tuple[Table, list[str]]:
        table = Table(out / "describer.jsonl", resume=resume)
        return table, describer.run(KEYS(suite="describer", describers=describers), table)

    return go  # type: ignore[return-value]


def untimed(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key not in TIMES} for row in rows]


def test_rows_tables_and_page(run: Run, tmp_path: Path) -> None:
    table, lines = run(tmp_path, "oracle", "geometry")
    assert {(row["describer"], row["split"]) for row in table.rows} == {
        (name, split) for name in ("oracle", "geometry") for split in HELD_OUT_SPLITS
    }
    for row in table.rows:
        assert not any(isinstance(value, list | dict) for value in row.values())
        asked = sum(row[f"left_of_{cell}"] for cell in describer_tables.CELLS)
        assert row["left_of_abstention"] == pytest.approx(
            (row["left_of_true_open"] + row["left_of_false_open"]) / asked
        )
        assert row["cpu_p95_ms"] >= row["cpu_ms"] > 0
        if row["describer"] == "oracle":
            assert (row["f1"], row["contradicted"], row["mentioned"]) == (1.0, 0.0, 1.0)
            assert row["left_of_accuracy"] == 1.0
    together = {row["describer"]: row for row in table.summary["captions"]}
    assert together["geometry"]["frames"] == sum(r["frames"] for r in table.rows if r["describer"] == "geometry")
    assert together["geometry"]["contradicted"] == pytest.approx(
        sum(r["false_all"] for r in table.rows if r["describer"] == "geometry") / together["geometry"]["said_all"]
    )
    assert lines[-1] == f"examples: {tmp_path / 'examples.html'}"
    page = (tmp_path / "examples.html").read_text("utf-8")
    assert page.count("<figure>") == sum(row["frames"] for row in table.rows if row["describer"] == "geometry")
    assert "oracle" not in page


def test_a_row_is_the_same_alone_and_after_a_kill(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, lines = run(tmp_path / "whole", "oracle", "geometry")
    made = describer_rows.looked

    def killed(subject: Subject, frames: FrameSet) -> Any:
        if frames.label(0).split == HELD_OUT_SPLITS[1]:
            raise KeyboardInterrupt
        return made(subject, frames)

    monkeypatch.setattr(describer_rows, "looked", killed)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts", "geometry")
    monkeypatch.setattr(describer_rows, "looked", made)
    run(tmp_path / "parts", "oracle", resume=True)
    again, again_lines = run(tmp_path / "parts", "geometry", "oracle", resume=True)
    assert sorted(map(json.dumps, untimed(again.rows))) == sorted(map(json.dumps, untimed(whole.rows)))
    assert len(again_lines) == len(lines)
    for file in (tmp_path / "whole" / "examples").iterdir():
        assert (tmp_path / "parts" / "examples" / file.name).read_text() == file.read_text()


def test_frames_of_other_scenes_than_their_seeds_give_are_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = RandomizerConfig
    monkeypatch.setattr(
        "robots.randomize.RandomizerConfig", lambda **told: drawn(arm=0.0, shares=(0.0, 1.0, 0.0, 0.0), **told)
    )
    with pytest.raises(UserError, match="another scene than its frames show.*leave out oracle"):
        run(tmp_path, "oracle")


def test_words_are_rows_too(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_encoder, "TextEncoder", FakeEncoder)
    table, lines = run(tmp_path, "words")
    assert {row["describer"] for row in table.rows} == {"words"}
    cosines = [row for row in table.rows if row["words_of"] == "sentences"]
    assert [row["leg"] for row in cosines] == [what for what, _, _ in SWAPS]
    assert any("no table knows" in line for line in lines)
    assert any("colours swapped" in line and f"{cosines[0]['cosine']:.3f}" in line for line in lines)
    (tmp_path / "describer.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.rows[:3]))
    again, _ = run(tmp_path, "words", resume=True)
    assert again.rows == table.rows


def test_raw_captions_are_judged_beside_what_is_made_of_them(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looker = CaptionLooker(Says())
    subject = Subject("blip", looker, Calibration(), looker)
    monkeypatch.setattr(describer, "_makers", lambda config: {"blip": lambda: subject})
    table, lines = run(tmp_path, "blip")
    for row in table.rows:
        assert row["sentence_frames"] == row["sentence_repeating"] == row["frames"]
        assert row["sentence_said_all"] == 4 * row["frames"]
        assert row["sentence_false_all"] >= row["frames"]
    assert [row["describer"] for row in table.summary["captions"]] == ["blip", "blip, raw"]
    assert any(line.startswith("blip, raw") and " all " in line for line in lines)
    assert "a red block, a red block" in (tmp_path / "examples.html").read_text("utf-8")


def test_unknown_describers_and_damaged_examples(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="oracle"):
        run(tmp_path / "a", "klip")
    assert not (tmp_path / "a").exists()
    run(tmp_path / "b", "geometry")
    next((tmp_path / "b" / "examples").iterdir()).write_text('[{"frame": 0}]')
    with pytest.raises(IntegrityError, match="is damaged; delete it"):
        run(tmp_path / "b", "geometry", resume=True)


def test_the_worst_come_first_and_the_others_are_spread() -> None:
    def shown(index: int) -> Example:
        return Example(str(index), (), "", (), (), "")

    frames = [(index % 50, (index, shown(index))) for index in range(100)]
    picked = [index for index, _ in describer_page.chosen(frames, 12)]
    assert picked[:6] == [49, 99, 48, 98, 47, 97]
    assert len(picked) == len(set(picked)) == 12
    mistakes = [index % 50 for index in picked]
    assert mistakes == sorted(mistakes, reverse=True)
    assert mistakes[-1] < 10
    assert [index for index, _ in describer_page.chosen(frames[:3], 12)] == [2, 1, 0]


def test_columns_are_aligned() -> None:
    lines = describer_tables.aligned(["who", "n", "share"], [["a", "1", "0.500"], ["long name", "12", "-"]])
    assert lines == ["who         n  share", "a           1  0.500", "long name  12      -"]


@pytest.mark.parametrize(
    ("asked", "made"),
    [
        (1, (1, 1, 1)),
        (10, (1, 10, 1)),
        (20, (2, 10, 1)),
        (64, (6, 10, 1)),
        (80, (8, 10, 1)),
        (320, (8, 10, 4)),
        (7000, (8, 10, 88)),
    ],
)
def test_a_set_has_about_as_many_frames_as_are_asked_for(asked: int, made: tuple[int, int, int]) -> None:
    assert shares_of(asked) == made
