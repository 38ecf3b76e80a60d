from __future__ import annotations

import subprocess
import sys
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


def test_only_one_process_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    begun = Table(path)
    other = Table(path)
    code = "import sys, pathlib; from embodied_launch.bench.table import Table; "
    code += f"table = Table(pathlib.Path({str(path)!r})); table.append({{'seed': 1}}); "
    code += "print('in', flush=True); sys.stdin.read()"
    writer = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "in\n"
    for attempt in (lambda: begun.append({"seed": 0}), lambda: Table(path, resume=True)):
        with pytest.raises(UserError, match="another process writes"):
            attempt()
    writer.kill()
    writer.wait()
    with pytest.raises(UserError, match="is there already"):
        other.append({"seed": 0})
    Table(path, resume=True).append({"seed": 2})
    assert [row["seed"] for row in Table(path, resume=True).rows] == [1, 2]


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
