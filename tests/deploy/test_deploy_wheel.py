from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def call(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True)


@pytest.mark.slow
def test_an_empty_environment_replays_a_trace(reach_bundle: Path, tmp_path: Path) -> None:
    """The wheel with its extra [deploy], nothing else: no torch, no simulator, no hydra to be had."""
    source, wheels, home = tmp_path / "source", tmp_path / "wheels", tmp_path / "robot"
    copied = call("git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, copied.stdout.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    built = call(sys.executable, "-m", "pip", "wheel", source, "--no-deps", "-w", wheels, cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    (wheel,) = wheels.glob("embodied_control-*.whl")

    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    installed = call(python, "-m", "pip", "install", f"embodied-control[deploy] @ {wheel.as_uri()}", cwd=tmp_path)
    assert installed.returncode == 0, installed.stderr
    look = "from importlib.util import find_spec; print([m for m in ('torch', 'mujoco', 'hydra') if find_spec(m)])"
    found = call(python, "-c", look, cwd=tmp_path)
    assert found.stdout.strip() == "[]"

    words = (f"bundle={reach_bundle}", "driver=trace", f"out={tmp_path / 'report.json'}")
    ended = call(python, "-m", "embodied.deploy", *words, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["ok"]
    assert report["parity_max_abs"] <= 1e-5

    program = home / "bin" / "embodied"
    deployed = call(program, "deploy", f"bundle={reach_bundle}", "driver=trace", cwd=tmp_path)
    assert deployed.returncode == 0, deployed.stderr
    assert json.loads(Path(deployed.stdout.splitlines()[-1]).read_text())["ok"]
    for verb in ("list", "doctor"):
        assert call(program, verb, cwd=tmp_path).returncode == 0
    trained = call(program, "train", "task=fetch_reach", cwd=tmp_path)
    assert (trained.returncode, len(trained.stderr.splitlines())) == (2, 1)
    assert "pip install 'embodied-control[all]'" in trained.stderr

    simulated = call(python, "-m", "embodied.deploy", f"bundle={reach_bundle}", "driver=sim", cwd=tmp_path)
    assert (simulated.returncode, len(simulated.stderr.splitlines())) == (2, 1)
    assert "pip install 'embodied-control[sim]'" in simulated.stderr
