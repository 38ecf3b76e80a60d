"""The training loop. Environment, learner, replay and checkpoints arrive by injection; this file owns the order."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from embodied.errors import UserError
from embodied.protocols import Env, GoalReward
from embodied.run.config import TrainConfig
from embodied.run.interrupt import InterruptGuard
from embodied.run.lock import RunLock
from embodied.run.parts import Checkpoints, Explorer, Learner, RecorderMaker, Replay
from embodied.run.result import TrainResult
from embodied.run.same import RunIdentity
from embodied.run.session import Session
from embodied.spec import EnvSpec
from embodied.types import Episode

__all__ = ["TrainConfig", "train"]


def train(
    config: TrainConfig,
    make_env: Callable[[], Env],
    make_learner: Callable[[EnvSpec], Learner],
    make_replay: Callable[[EnvSpec, GoalReward], Replay],
    checkpoints: Checkpoints,
    run_dir: Path,
    *,
    make_explorer: Callable[[EnvSpec], Explorer | None] = lambda _: None,
    make_recorder: RecorderMaker | None = None,
    demonstrations: Iterable[Episode] = (),
    identity: RunIdentity | None = None,
    provenance: dict[str, Any] | None = None,
    resume: bool = False,
    resume_command: str = "the same command with resume=auto",
    logger: str = "jsonl",
    progress: bool = True,
    on_start: Callable[[], object] = lambda: None,
) -> TrainResult:
    """Train a learner and leave `metrics.jsonl`, `checkpoints/`, the episodes and `controller/` in the run folder.

    Args:
        config: Lengths, exploration, schedules.
        make_env: A fresh environment per call: one for each worker and one for evaluations.
        make_learner: From the task's spec.
        make_replay: From the task's spec and reward.
        checkpoints: The run's own.
        run_dir: Made if needed; only one process may train in it.
        make_explorer: From the task's spec, what chooses the goals of training steps; None: the task's own is pursued.
        make_recorder: Opens a second record of the finished episodes, for others to read.
        demonstrations: Episodes that the replay begins with; a resumed run has them already.
        identity: Settings that a resumed run must share, and versions that it is compared with.
        provenance: JSON values saved with the controller: command, git commit.
        resume: Go on from the newest good checkpoint, if there is one.
        resume_command: Named when the run is interrupted.
        logger: `jsonl` or `tensorboard`.
        progress: Show a progress bar on stderr.
        on_start: Called once the folder is this process's own and nothing speaks against the run.

    Raises:
        KeyboardInterrupt: After a checkpoint was saved.
        UserError: Another process trains in the folder, the checkpoint is another run's, or the disk is full.
    """
    with RunLock(run_dir):
        run = None
        try:
            run = Session(
                config, make_env, make_learner, make_replay, checkpoints, run_dir,
                make_explorer=make_explorer, make_recorder=make_recorder, demonstrations=demonstrations,
                identity=identity or RunIdentity(),
                provenance=provenance or {}, resume=resume, logger=logger, progress=progress,
            )  # fmt: skip
            on_start()
            with run, InterruptGuard() as interrupt:
                return _loop(run, interrupt, resume_command)
        except OSError as error:
            raise _unwritten(error, run, resume_command) from error


def _loop(run: Session, interrupt: InterruptGuard, resume_command: str) -> TrainResult:
    try:
        run.evaluate_if_due(interrupt)
        while not run.over:
            interrupt.check()
            run.collect()
            run.learn()
            run.log_if_due()
            run.evaluate_if_due(interrupt)
            run.save_if_due()
        return run.finish(interrupt)
    except KeyboardInterrupt:
        run.save()
        run.say(f"stopped and saved at step {run.step:,}; to go on: {resume_command}")
        raise


def _unwritten(error: OSError, run: Session | None, resume_command: str) -> UserError:
    """A disk that is full, or a file that cannot be written, in one line that says where the run stands."""
    what = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else (error.strerror or str(error))
    where = f" ({error.filename})" if error.filename else ""
    saved = run.saved_step if run is not None else None
    kept = "nothing was saved yet" if saved is None else f"the run is saved up to step {saved:,}"
    return UserError(f"{what}{where}: {kept}; make room, then: {resume_command}")
