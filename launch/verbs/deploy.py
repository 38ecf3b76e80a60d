"""`embodied deploy`: a bundle on a driver, in a process of its own that never sees torch, mujoco or hydra."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embodied.deploy.drivers import DRIVERS
from embodied.errors import JobFailed, UserError

from ..idle import idle_by_choice, refuse
from ..keys import key
from ..outcome import Outcome, RunFolder

EPISODES = 100
"""Of driver=sim where nothing is said: as many as a final evaluation has."""


@dataclass(frozen=True)
class KEYS:
    """Keys of `embodied deploy`."""

    bundle: str = key("folder that `embodied export` wrote", literal=True)
    driver: str = key("what is driven; trace replays the bundle's golden trace", "trace", choices=sorted(DRIVERS))
    seconds: float | None = key("how long to run; default: until the episodes are done", None, unit="s", minimum=0.0)
    episodes: int | None = key("episodes; default: 100, or as many as fit in seconds=", None, minimum=1, of=("sim",))
    seed: int = key("seed of the first episode; episode i uses seed+i", 2_000_000, minimum=0, of=("sim",))
    out: str = key("run folder; default runs/deploy/<time>", "", literal=True)


def bundle_folder(given: str) -> Path:
    """The bundle itself: an export's run folder stands for the `bundle` folder inside."""
    folder = Path(given).expanduser()
    inside = folder / "bundle"
    return inside if not (folder / "manifest.json").exists() and (inside / "manifest.json").exists() else folder


def run_runtime(config: KEYS) -> dict[str, Any]:
    """The report of the runtime process.

    Raises:
        UserError: The runtime refused the bundle or a value.
        JobFailed: The runtime ended without a report.
    """
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary) / "report.json"
        words = [f"bundle={bundle_folder(config.bundle)}", f"driver={config.driver}", f"seed={config.seed}"]
        words += [f"out={report}"]
        if config.seconds is not None:
            words.append(f"seconds={config.seconds}")
        if config.episodes is not None or config.seconds is None:
            words.append(f"episodes={config.episodes or EPISODES}")
        command = [sys.executable, "-m", "embodied.deploy", *words]
        ended = subprocess.run(command, capture_output=True, text=True)
        complaint = ended.stderr.strip().splitlines()
        if ended.returncode == 2:
            raise UserError(complaint[-1] if complaint else "the runtime refused the bundle")
        if not report.is_file():
            last = complaint[-1] if complaint else f"exit code {ended.returncode}"
            raise JobFailed("runtime", f"the runtime process ended without a report: {last}")
        return json.loads(report.read_text("utf-8"))


def run(config: KEYS, folder: RunFolder) -> Outcome:
    """Runs the bundle and passes on what the runtime process reported."""
    refuse(idle_by_choice(KEYS, "driver", config.driver, folder.asked))
    report = run_runtime(config)
    return Outcome(bool(report["ok"]), report, summary(report))


def summary(report: dict[str, Any]) -> tuple[str, ...]:
    """The report in a few lines."""
    rows = [f"driver        {report['driver']}", f"steps         {report['steps']}"]
    if report.get("success_rate") is not None:
        rows.append(f"success       {report['success_rate']:.2f} over {report['episodes']} episodes")
    if report.get("parity_max_abs") is not None:
        rows.append(f"trace         largest difference {report['parity_max_abs']:.2e}")
    acted = {name: count for name, count in report["interventions"].items() if count}
    rows.append(f"interventions {acted or 'none'}")
    return tuple(rows)
