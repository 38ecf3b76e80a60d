"""`embodied export`: a trained controller to a deployment bundle."""

from __future__ import annotations

from dataclasses import dataclass

from ..keys import key
from ..outcome import Outcome, RunFolder


@dataclass(frozen=True)
class KEYS:
    """Keys of `embodied export`."""

    run: str = key("run folder, or zoo:<name>", literal=True)
    seed: int = key("seed of the first recorded episode", 2_000_000, minimum=0)
    trace_steps: int = key("least number of recorded steps that the file has to answer alike", 1000, minimum=1000)
    episodes: int = key("episodes of the closed-loop comparison", 20, minimum=1)
    out: str = key("run folder, the bundle lies in it; default runs/export/<time>-<run>", "", literal=True)


def run(config: KEYS, folder: RunFolder) -> Outcome:
    """Writes the bundle; refuses when the file answers differently from the controller."""
    from .. import api

    controller = api.load_controller(config.run)
    exported = api.export(controller, folder.path / "bundle", config.trace_steps, config.episodes, config.seed)
    policy, file = exported.closed_loop_success
    lines = (
        f"bundle   {exported.bundle}",
        f"parity   largest difference {exported.parity_max_abs:.2e} over {exported.trace_steps} steps",
        f"success  policy {policy:.2f}, file {file:.2f} over {config.episodes} episodes",
    )
    result = {
        "task": controller.manifest.task, "run": config.run, "bundle": exported.bundle,
        "parity_max_abs": exported.parity_max_abs, "trace_steps": exported.trace_steps,
        "closed_loop_success": {"policy": policy, "file": file},
    }  # fmt: skip
    return Outcome(True, result, lines)
