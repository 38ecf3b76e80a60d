"""`embodied evaluate`: how often a controller succeeds."""

from __future__ import annotations

from dataclasses import dataclass

from ..keys import key
from ..outcome import Outcome, RunFolder


@dataclass(frozen=True)
class KEYS:
    """Keys of `embodied evaluate`."""

    run: str = key("run folder, or zoo:<name>", literal=True)
    task: str = key("a task, or gym:<id>; default: the task that the controller was trained on", "")
    episodes: int = key("episodes", 100, minimum=1)
    seed: int = key("seed of the first episode; episode i uses seed+i", 2_000_000, minimum=0)
    video: str = key("mp4 file for the first episodes", "", literal=True)
    out: str = key("run folder; default runs/evaluate/<time>-<task>", "", literal=True)


def run(config: KEYS, folder: RunFolder) -> Outcome:
    """Rolls out the controller and counts."""
    from .. import api

    controller = api.load_controller(config.run)
    task = config.task or controller.manifest.task
    found = api.evaluate(controller, task, config.episodes, config.seed, config.video or None)
    low, high = found.ci95
    lines = (
        f"{task}: success {found.success_rate:.3f} over {found.episodes} episodes (95 %: {low:.3f} to {high:.3f})",
        f"at the last step {found.success_final:.3f}, at any step {found.success_any:.3f}; "
        f"{'the last step' if found.success_rule == 'last' else 'any step'} is what counts in this task",
    )
    result = {"task": task, "seed": config.seed, **found.to_dict()}
    if config.video:
        result["video"] = config.video
    return Outcome(True, result, lines)
