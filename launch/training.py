"""From configurations to a training: the parts are made here, the loop is `embodied.run.train`."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embodied.errors import UserError
from embodied.learning.footprint import batch_row_bytes
from embodied.protocols import Env, GoalReward
from embodied.spec import EnvSpec

from . import build, recordings
from .outcome import git_commit, plain, versions

if TYPE_CHECKING:
    from embodied.learning.controller import TorchController
    from embodied.learning.her import HindsightReplay, ReplayConfig
    from embodied.learning.sac import SacConfig, SacLearner
    from embodied.run.config import TrainConfig
    from embodied.run.parts import RecorderMaker
    from embodied.run.relay import RelayConfig, RelayExplorer
    from embodied.run.result import TrainResult
    from embodied.types import Episode


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
    run_dir = Path(run_dir)
    _refuse(run_dir, resume, logger)
    parts = _Parts.of(task, run_dir, loop, sac, replay, relay, init_from)
    parts.try_out()
    files = _EpisodeFiles(task, record, record_layout, demonstrations)
    return _run(parts, files, resume, logger, progress, command, on_ready)


def _run(
    parts: _Parts,
    files: _EpisodeFiles,
    resume: bool,
    logger: str,
    progress: bool,
    command: str,
    on_ready: Callable[[], object],
) -> TrainResult:
    """The training with all that it is put together from."""
    from embodied.learning.checkpoint import CheckpointStore
    from embodied.run.same import RunIdentity
    from embodied.run.train import train as run_training

    make_recorder, demonstrations = files.open(parts.run_dir, resume)
    return run_training(
        parts.loop,
        parts.make_env,
        parts.make_learner,
        parts.make_replay,
        CheckpointStore(parts.run_dir / "checkpoints", lambda line: print(line, file=sys.stderr)),
        parts.run_dir,
        make_explorer=parts.make_explorer,
        make_recorder=make_recorder,
        demonstrations=demonstrations,
        resume=resume,
        resume_command=_resume_command(command, parts.run_dir),
        logger=logger,
        progress=progress,
        provenance={"command": command, "git_commit": git_commit()},
        identity=RunIdentity(parts.settings(), versions(), str(files.record) if files.record else None),
        on_start=on_ready,
    )


@dataclass(frozen=True)
class _EpisodeFiles:
    """Recorded episodes beside the run's own: those to write and those to begin with."""

    task: str
    record: str | Path | None
    record_layout: str
    demonstrations: str | Path | None

    def open(self, run_dir: Path, resume: bool) -> tuple[RecorderMaker | None, Iterable[Episode]]:
        """What opens the record, where one is asked for, and the demonstrations; a resumed run has them already."""
        if not self.record and not self.demonstrations:
            return None, ()
        goals = build.goal_layout(self.task)
        maker = (
            recordings.recorder_maker(self.record, self.record_layout, goals, run_dir, resume) if self.record else None
        )
        shown = recordings.demonstrations(self.demonstrations, goals) if self.demonstrations and not resume else ()
        return maker, shown


@dataclass(frozen=True)
class _Parts:
    """What the loop is put together from, by the configurations."""

    task: str
    run_dir: Path
    loop: TrainConfig
    sac: SacConfig
    replay: ReplayConfig
    relay: RelayConfig
    start: TorchController | None
    """Whose networks to begin with."""

    @classmethod
    def of(
        cls,
        task: str,
        run_dir: Path,
        loop: TrainConfig | None,
        sac: SacConfig | None,
        replay: ReplayConfig | None,
        relay: RelayConfig | None,
        init_from: str | Path | None,
    ) -> _Parts:
        """With defaults for what is None."""
        from embodied.learning.controller import open_controller
        from embodied.learning.her import ReplayConfig
        from embodied.learning.sac import SacConfig
        from embodied.run.config import TrainConfig
        from embodied.run.relay import RelayConfig

        start = open_controller(init_from) if init_from else None
        configs = (loop or TrainConfig(), sac or SacConfig(), replay or ReplayConfig(), relay or RelayConfig())
        return cls(task, run_dir, *configs, start)

    def make_env(self) -> Env:
        """A fresh environment of the task."""
        from robots.registry import make_env

        return make_env(self.task)

    def make_learner(self, spec: EnvSpec) -> SacLearner:
        """A learner, with the networks to begin with where there are some."""
        from embodied.learning.sac import SacLearner

        learner = SacLearner(spec, self.sac, self.loop.seed)
        if self.start is not None:
            learner.initialise_from(self.start)
        return learner

    def make_replay(self, spec: EnvSpec, reward: GoalReward) -> HindsightReplay:
        """The replay, its episodes in the run's folder."""
        from embodied.learning.her import HindsightReplay

        path = self.run_dir / "episodes.bin"
        return HindsightReplay(spec, reward, self.replay, self.loop.seed, path, self.sac.gamma)

    def make_explorer(self, spec: EnvSpec) -> RelayExplorer | None:
        """Exploration by relay, where the task is about an object."""
        from embodied.run.relay import RelayExplorer, relay_fits

        fits = self.relay.enabled and relay_fits(spec)
        return RelayExplorer(spec, self.relay, self.loop.seed, self.loop.workers) if fits else None

    def try_out(self) -> None:
        """Makes everything once, so that what does not go together is refused before anything is written."""
        if self.loop.ends_after is not None and self.replay.lost_after is not None:
            raise UserError(
                "with loop.ends_after every episode would count as lost: set it or replay.lost_after to null"
            )
        if self.loop.ends_at_goal and self.replay.lost_after is not None:
            raise UserError(
                "with loop.ends_at_goal episodes that end at their goal would count as lost: set it to 0, or "
                "replay.lost_after to null"
            )
        with contextlib.closing(self.make_env()) as env:
            learner = self.make_learner(env.spec)
            self.make_replay(env.spec, env.reward)
            self._refuse_batch(learner.policy.shape.input_width, env.spec.layout.goal_width)
            for note in (*getattr(env, "notes", ()), *self._idle_notes(env.spec), *self._start_notes()):
                print(f"{self.task}: {note}", file=sys.stderr)

    def _refuse_batch(self, inputs: int, goal: int) -> None:
        """A batch that is more than there can be, or does not fit in memory; `inputs` and `goal` are widths."""
        from embodied.learning.memory import refuse_beyond_memory

        if self.loop.batch_size > self.replay.capacity:
            raise UserError(
                f"loop.batch_size={self.loop.batch_size} is more than the replay holds: give at most "
                f"replay.capacity={self.replay.capacity}"
            )
        ahead = 1 + self.replay.n_step + self.replay.settle
        row = batch_row_bytes(inputs, goal, self.sac.hidden, self.sac.critics, ahead)
        size = self.loop.batch_size
        refuse_beyond_memory(size * row, f"loop.batch_size={size}", "give a smaller batch, or narrower sac.hidden")

    def _idle_notes(self, spec: EnvSpec) -> list[str]:
        """A line where settings about an object were given, by whomever, in a task about none."""
        from embodied.run.relay import RelayConfig, relay_fits

        if relay_fits(spec) or (self.relay == RelayConfig() and not self.replay.gripper_share):
            return []
        return ["relay.* and replay.gripper_share do nothing here: the task is about no object"]

    def _start_notes(self) -> list[str]:
        """A line where the networks to begin with were trained on something else."""
        told = self.start.manifest.task if self.start is not None else self.task
        return [] if told == self.task else [f"init_from: the controller to begin with was trained on {told}"]

    def settings(self) -> dict[str, Any]:
        """What decides what a run computes, flat: a resumed run must have the same."""
        from embodied.run.config import LENGTHS

        flat: dict[str, Any] = {"task": self.task}
        for group in ("loop", "sac", "replay", "relay"):
            flat |= {f"{group}.{name}": value for name, value in asdict(getattr(self, group)).items()}
        return {name: plain(value) for name, value in flat.items() if name.removeprefix("loop.") not in LENGTHS}


def _refuse(run_dir: Path, resume: bool, logger: str) -> None:
    """Refuses a folder that is not this run's, and a logger that is not installed."""
    _refuse_foreign(run_dir, resume)
    if logger == "tensorboard" and find_spec("tensorboard") is None:
        raise UserError("logger=tensorboard needs its package: pip install 'embodied-control[tensorboard]'")


def _refuse_foreign(run_dir: Path, resume: bool) -> None:
    """A training overwrites nothing: neither a run that is not resumed, nor files that are no run's of ours."""
    names = ("metrics.jsonl", "result.json", "config.yaml", "episodes.bin", "checkpoints", "controller")
    taken = [name for name in names if (run_dir / name).exists()]
    if not taken or (resume and (run_dir / "begun.json").exists()):
        return
    if (run_dir / "begun.json").exists():
        raise UserError(f"'{run_dir}' holds a run already; continue it with resume=auto or choose another run_dir=")
    raise UserError(f"'{run_dir}' holds {', '.join(taken)} of something else: choose another run_dir=")


def _resume_command(command: str, run_dir: Path) -> str:
    if not command:
        return "the same call with resume=True"
    words = [word for word in shlex.split(command) if not word.startswith(("resume=", "run_dir="))]
    return shlex.join([*words, f"run_dir={run_dir}", "resume=auto"])
