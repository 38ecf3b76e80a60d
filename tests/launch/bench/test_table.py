from __future__ import annotations

from pathlib import Path

import pytest
from embodied_launch.bench.table import Table

from embodied.errors import IntegrityError, UserError


def test_rows_are_there_again(tmp_path: Path) -> None:
    table = Table(tmp_path / "made" / "learning.jsonl")
    table.append({"system": "ours", "seed": 0, "steps_to_0.9": 62_000})
    table.append({"system": "ours", "seed": 1, "steps_to_0.9": float("inf")})
    again = Table(table.path, resume=True)
    assert again.rows == table.rows
    assert [row["steps_to_0.9"] for row in again.rows] == [62_000, None]
    assert again.done(system="ours", seed=1)
    assert not again.done(system="ours", seed=2)
    assert not again.done(speed=None), "a key that no row has is not null in it"


def test_a_torn_last_line_is_dropped_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(tmp_path / "t.jsonl")
    table.append({"seed": 0})
    with table.path.open("ab") as file:
        file.write(b'{"seed": 1, "suc')
    again = Table(table.path, resume=True)
    assert "dropped" in capsys.readouterr().err
    again.append({"seed": 2})
    assert table.path.read_text() == '{"seed": 0}\n{"seed": 2}\n'


def test_an_existing_table_is_not_gone_on_with_unasked(tmp_path: Path) -> None:
    Table(tmp_path / "t.jsonl").append({"seed": 0})
    with pytest.raises(UserError, match="resume=auto"):
        Table(tmp_path / "t.jsonl")


@pytest.mark.parametrize("line", ["[1, 2]", '{"seed": ', "seed"])
def test_a_damaged_line_in_the_middle_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"seed": 0}\n' + line + '\n{"seed": 2}\n')
    with pytest.raises(IntegrityError, match="line 2"):
        Table(path, resume=True)


def test_rows_are_flat(tmp_path: Path) -> None:
    table = Table(tmp_path / "t.jsonl")
    with pytest.raises(ValueError, match="ci"):
        table.append({"ci": [0.1, 0.2]})
    assert not table.path.exists()
