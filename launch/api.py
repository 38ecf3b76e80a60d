"""What the verbs do, from Python: a few typed functions that the command line is thin over.

from embodied_launch import api

controller = api.load_controller("zoo:fetch_reach")
with api.open_scene("tabletop_blocks") as scene:
    print(api.describe(scene).text)
made = api.plan("tabletop_blocks", "touch the red block, then the blue block", execute=True, out="runs/mine")
bundle = api.export(controller, "runs/bundle")
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embodied.errors import UserError
from embodied.protocols import Controller, Env
from embodied.types import Frame, Goal, SceneDescription

from . import build
from .outcome import git_commit
from .planning import Planned, plan
from .training import train

if TYPE_CHECKING:
    from embodied.export.bundle import ExportResult
    from embodied.learning.controller import TorchController
    from embodied.run.evaluate import Evaluation

__all__ = [
    "Exported", "Goal", "Planned", "describe", "evaluate", "export", "load_controller", "make_env", "open_scene",
    "plan", "train",
]  # fmt: skip


def load_controller(run: str | Path) -> TorchController:
    """A trained controller: `zoo:<name>`, a run folder, or the `controller` folder in one.

    Raises:
        UserError: There is none, or it is damaged.
    """
    build.one_thread()
    from embodied.learning.controller import open_controller

    return open_controller(run)


def make_env(task: str) -> Env:
    """The environment of a registered task or of `gym:<id>`."""
    from robots.registry import make_env as make

    return make(task)


def open_scene(scene: str, files_from: str = "") -> build.Opened:
    """A scene to look at: `with open_scene("tabletop_blocks") as scene: scene.render()`.

    Args:
        scene: A shipped one, a task, or the path of an MJCF file.
        files_from: A folder that the file may read from besides its own.
    """
    return build.Opened(build.open_scene(scene, files_from=files_from))


def describe(scene: build.Scene, describer: str = "oracle", sight: build.Sight | None = None) -> SceneDescription:
    """What there is in a scene, in words and facts."""
    return build.make_describer(describer, scene, sight).describe(())


def describe_frame(frame: Frame, describer: str = "clip", sight: build.Sight | None = None) -> SceneDescription:
    """What a camera's picture shows, in words and facts; left and right are those of the world that its pose is in."""
    return build.make_seer(describer, sight or build.Sight(), None).describe((frame,))


def evaluate(
    controller: Controller, task: str, episodes: int = 100, seed: int = 2_000_000, video: str | Path | None = None
) -> Evaluation:
    """Success over `episodes` episodes, episode i with seed `seed` + i, without exploration.

    Args:
        controller: Anything with `manifest` and `act`.
        task: A registered task or `gym:<id>`.
        episodes: At least 1.
        seed: Of the first episode.
        video: An mp4 to write the first three episodes to.
    """
    from embodied.run.evaluate import evaluate as run_evaluation

    env = make_env(task)
    try:
        if video is None:
            return run_evaluation(env, controller, episodes, seed)
        from embodied.report.film import Film

        with Film(Path(video), env.spec.control_hz) as film:

            def watch(transition: Any) -> None:
                if transition.episode < 3:
                    film.add(env.render(None, 480, 480).rgb)

            return run_evaluation(env, controller, episodes, seed, watch)
    finally:
        env.close()


EXPORTED = "exported"
"""In a bundle's provenance: what it was made of."""


@dataclass(frozen=True)
class Exported:
    """A bundle that was proved equal, and success in closed loop."""

    result: ExportResult
    closed_loop_policy: float
    closed_loop_file: float


def export(
    controller: TorchController,
    out: str | Path,
    *,
    trace_steps: int = 1000,
    episodes: int = 20,
    seed: int = 2_000_000,
    source: str = "",
) -> Exported:
    """Writes the deployment bundle `out` of a controller.

    Records at least `trace_steps` steps on the controller's own task, demands that the file answers alike, and compares
    success in closed loop over `episodes` episodes.

    Raises:
        ParityError: The file answers differently; nothing is left behind.
        UserError: `out` holds something else, or the bundle of another controller or another trace.
    """
    from embodied.deploy.policy import OnnxController
    from embodied.export.bundle import export_bundle
    from embodied.export.parity import closed_loop_success
    from embodied.export.recording import record_steps
    from embodied.run.evaluate import evaluate as run_evaluation

    asked = {"run": source, "weights_sha256": controller.weights_sha256, "trace_steps": trace_steps, "seed": seed}
    _refuse_other_bundle(Path(out), asked)
    env = make_env(controller.manifest.task)
    with contextlib.closing(env):
        trace = record_steps(env, controller, seed, trace_steps)
        told = {"run": source, "exporter_git_commit": git_commit(), **controller.extra, EXPORTED: asked}
        result = export_bundle(controller, trace, Path(out), provenance=told)
        both = closed_loop_success(env, controller, OnnxController(result.bundle), run_evaluation, episodes, seed)
    return Exported(result, both.policy, both.file)


def _refuse_other_bundle(out: Path, asked: Mapping[str, Any]) -> None:
    """A bundle is made again in its place only from the same run (or the same weights) with the same trace."""
    from embodied.bundle_format import MANIFEST_FILE, read_manifest

    if not (out / MANIFEST_FILE).is_file():
        return
    before = read_manifest(out).provenance.get(EXPORTED, {})
    source = "run" if asked["run"] else "weights_sha256"
    for name in (source, "trace_steps", "seed"):
        if before.get(name) != asked[name]:
            raise UserError(
                f"'{out}' holds a bundle with other settings ({name}={before.get(name)}, not {asked[name]}) already: "
                "choose another out="
            )
