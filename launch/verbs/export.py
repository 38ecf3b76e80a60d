"""`embodied export`: a trained controller to a deployment bundle."""

from __future__ import annotations

from dataclasses import dataclass

from embodied.errors import JobFailed

from ..api import Exported
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


BUNDLE = "bundle"


def run(config: KEYS, folder: RunFolder) -> Outcome:
    """Writes the bundle; refuses when the file answers differently from the controller."""
    from .. import api, records

    controller = api.load_controller(config.run)
    try:
        exported = api.export(
            controller, folder.unmade / BUNDLE, trace_steps=config.trace_steps, episodes=config.episodes,
            seed=config.seed, source=config.run,
        )  # fmt: skip
    except JobFailed:
        # An earlier one, of the same settings, would pass for this run's.
        folder.discard((BUNDLE,))
        raise
    result = {"task": controller.manifest.task, "run": config.run, **records.exported_record(exported)}
    return Outcome(True, result, lines(exported, config.episodes))


def lines(exported: Exported, episodes: int) -> tuple[str, ...]:
    """The bundle in a few lines."""
    result = exported.result
    return (
        f"bundle   {result.bundle}",
        f"parity   largest difference {result.parity_max_abs:.2e} over {result.trace_steps} steps",
        f"success  policy {exported.closed_loop_policy:.2f}, file {exported.closed_loop_file:.2f} "
        f"over {episodes} episodes",
    )
