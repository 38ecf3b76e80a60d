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
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embodied.errors import UserError
from embodied.protocols import Controller, Env
from embodied.types import Goal, SceneDescription

from . import build
from .outcome import git_commit, plain, versions
from .planning import Planned, plan

if TYPE_CHECKING:
    from embodied.export.bundle import ExportResult
    from embodied.learning.controller import TorchController
    from embodied.learning.her import ReplayConfig
    from embodied.learning.sac import SacConfig
    from embodied.run.config import TrainConfig
    from embodied.run.evaluate import Evaluation
    from embodied.run.relay import RelayConfig
    from embodied.run.result import TrainResult

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


def open_scene(scene: str) -> build.Opened:
    """A scene to look at: `with open_scene("tabletop_blocks") as scene: scene.render()`."""
    return build.Opened(build.open_scene(scene))


def describe(scene: build.Scene, describer: str = "oracle") -> SceneDescription:
    """What there is in a scene, in words and facts."""
    return build.make_describer(describer, scene.scene_state).describe(())


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


def train(
    task: str,
    run_dir: str | Path,
    loop: TrainConfig | None = None,
    sac: SacConfig | None = None,
    replay: ReplayConfig | None = None,
    relay: RelayConfig | None = None,
    *,
    resume: bool = False,
    init_from: str | Path | None = None,
    record: str | Path | None = None,
    record_layout: str = "auto",
    demonstrations: str | Path | None = None,
    logger: str = "jsonl",
    progress: bool = True,
    command: str = "",
    on_ready: Callable[[], object] = lambda: None,
) -> TrainResult:
    """Trains a controller and leaves it, its checkpoints and metrics in `run_dir`.

    Args:
        task: A registered task or `gym:<id>`.
        run_dir: Made if needed; one that holds a run is refused unless `resume`.
        loop: Lengths, exploration, schedules, seed.
        sac: The learner.
        replay: Size and relabelling.
        relay: Exploration in tasks about an object.
        resume: Go on from the newest good checkpoint, or start afresh where there is none.
        init_from: Controller or run folder whose networks to begin with.
        record: Where to write every finished training episode to (HDF5), for others to read.
        record_layout: `minari` (a folder), `robomimic` (a file), or `auto`: by the name.
        demonstrations: Recorded episodes (ours, Minari's or robomimic's) that the replay begins with.
        logger: `jsonl` or `tensorboard`.
        progress: Show a bar on stderr.
        command: What a user would type to make this run, kept with the controller.
        on_ready: Called once all that was asked for is known to be there and the folder is this process's own.

    Raises:
        UserError: A task, folder or package that is not there.
        KeyboardInterrupt: After saving.
    """
    build.one_thread()
    from embodied.learning.checkpoint import CheckpointStore
    from embodied.learning.her import HindsightReplay, ReplayConfig
    from embodied.learning.sac import SacConfig, SacLearner
    from embodied.run.config import TrainConfig
    from embodied.run.relay import RelayConfig, RelayExplorer, relay_fits
    from embodied.run.same import RunIdentity
    from embodied.run.train import train as run_training

    loop, sac, replay = loop or TrainConfig(), sac or SacConfig(), replay or ReplayConfig()
    relay = relay or RelayConfig()
    run_dir = Path(run_dir)
    _refuse_foreign(run_dir, resume)
    if logger == "tensorboard" and find_spec("tensorboard") is None:
        raise UserError("logger=tensorboard needs its package: pip install 'embodied-control[tensorboard]'")
    start = load_controller(init_from) if init_from else None

    def make_learner(spec: Any) -> SacLearner:
        learner = SacLearner(spec, sac, loop.seed)
        if start is not None:
            learner.initialise_from(start)
        return learner

    def make_explorer(spec: Any) -> RelayExplorer | None:
        return RelayExplorer(spec, relay, loop.seed, loop.workers) if relay.enabled and relay_fits(spec) else None

    with contextlib.closing(make_env(task)) as env:
        make_learner(env.spec)
        HindsightReplay(env.spec, env.reward, replay, loop.seed)
        for note in getattr(env, "notes", ()):
            print(f"{task}: {note}", file=sys.stderr)
    goals = build.goal_layout(task) if record or demonstrations else None
    make_recorder = build.recorder_maker(record, record_layout, goals, run_dir, resume) if record else None
    begin_with = build.demonstrations(demonstrations, goals) if demonstrations and not resume else ()

    return run_training(
        loop,
        lambda: make_env(task),
        make_learner,
        lambda spec, reward: HindsightReplay(spec, reward, replay, loop.seed, run_dir / "episodes.bin", sac.gamma),
        CheckpointStore(run_dir / "checkpoints", lambda line: print(line, file=sys.stderr)),
        run_dir,
        make_explorer=make_explorer,
        make_recorder=make_recorder,
        demonstrations=begin_with,
        resume=resume,
        resume_command=_resume_command(command, run_dir),
        logger=logger,
        progress=progress,
        provenance={"command": command, "git_commit": git_commit()},
        identity=RunIdentity(
            _settings(task, loop=loop, sac=sac, replay=replay, relay=relay),
            versions(),
            str(record) if record else None,
        ),
        on_start=on_ready,
    )


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
    """
    from embodied.deploy.policy import OnnxController
    from embodied.export.bundle import export_bundle
    from embodied.export.parity import closed_loop_success
    from embodied.export.recording import record_steps
    from embodied.run.evaluate import evaluate as run_evaluation

    env = make_env(controller.manifest.task)
    with contextlib.closing(env):
        trace = record_steps(env, controller, seed, trace_steps)
        told = {"run": source, "exporter_git_commit": git_commit(), **controller.extra}
        result = export_bundle(controller, trace, Path(out), provenance=told)
        both = closed_loop_success(env, controller, OnnxController(result.bundle), run_evaluation, episodes, seed)
    return Exported(result, both.policy, both.file)


def _refuse_foreign(run_dir: Path, resume: bool) -> None:
    """A training overwrites nothing: neither a run that is not resumed, nor files that are no run's of ours."""
    names = ("metrics.jsonl", "result.json", "config.yaml", "episodes.bin", "checkpoints", "controller")
    taken = [name for name in names if (run_dir / name).exists()]
    if not taken or (resume and (run_dir / "begun.json").exists()):
        return
    if (run_dir / "begun.json").exists():
        raise UserError(f"'{run_dir}' holds a run already; continue it with resume=auto or choose another run_dir=")
    raise UserError(f"'{run_dir}' holds {', '.join(taken)} of something else: choose another run_dir=")


def _settings(task: str, **groups: Any) -> dict[str, Any]:
    """What decides what a run computes, flat: a resumed run must have the same."""
    from embodied.run.config import LENGTHS

    flat = {"task": task}
    for group, config in groups.items():
        flat |= {f"{group}.{name}": value for name, value in asdict(config).items()}
    return {name: plain(value) for name, value in flat.items() if name.removeprefix("loop.") not in LENGTHS}


def _resume_command(command: str, run_dir: Path) -> str:
    if not command:
        return "the same call with resume=True"
    words = [word for word in shlex.split(command) if not word.startswith(("resume=", "run_dir="))]
    return shlex.join([*words, f"run_dir={run_dir}", "resume=auto"])
