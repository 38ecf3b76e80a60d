"""The training loop. Environment, learner, replay and checkpoints arrive by injection; this file owns the order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from embodied.binding import InputBinder
from embodied.errors import UserError
from embodied.protocols import Controller, Env, GoalReward
from embodied.rng import child_generator
from embodied.run.driver import Driver, EpisodeRecorder, Transition
from embodied.run.evaluate import EVALUATION_SEED, Evaluation, evaluate
from embodied.run.interrupt import InterruptGuard
from embodied.run.metrics import MetricsWriter, RunClock, RunningMean
from embodied.run.progress import ProgressBar
from embodied.run.result import ScheduledEvaluation, TrainResult
from embodied.spec import EnvSpec
from embodied.types import Batch, Episode, FloatArray, Goal, Observation, PolicyManifest

Saved = tuple[dict[str, NDArray[Any]], dict[str, Any]]
"""Arrays and JSON values of one part of a checkpoint."""


class Learner(Protocol):
    """What is trained."""

    manifest: PolicyManifest
    updates: int

    def act(self, observation: FloatArray, goal: FloatArray) -> FloatArray:
        """Exploring actions (B, A) for input vectors (B, S+F) and (B, G)."""
        ...

    def observe(self, observation: FloatArray, goal: FloatArray) -> None:
        """New inputs, for running statistics."""
        ...

    def update(self, batch: Batch) -> dict[str, float]:
        """One update; what happened, by name, always under the same names."""
        ...

    def controller(self) -> Controller:
        """The policy as it is now, without exploration."""
        ...

    def save_controller(self, folder: Path, extra: dict[str, Any]) -> None: ...
    def state(self) -> Saved: ...
    def restore(self, arrays: dict[str, NDArray[Any]], meta: dict[str, Any]) -> None: ...


class Replay(Protocol):
    """What the learner is trained on."""

    def __len__(self) -> int: ...
    def add(self, episode: Episode) -> None: ...
    def sample(self, size: int) -> Batch: ...
    def state(self) -> Saved: ...
    def restore(self, arrays: dict[str, NDArray[Any]], meta: dict[str, Any]) -> None: ...


class Checkpoints(Protocol):
    """Where a run can be taken up again."""

    def save(self, step: int, parts: dict[str, Saved]) -> None: ...
    def newest(self) -> dict[str, Saved] | None: ...
    def clear(self) -> None: ...


@dataclass(frozen=True)
class TrainConfig:
    """How long a run is, how it explores, and when it is evaluated, logged and saved. Steps are environment steps."""

    total_steps: int = 200_000
    """Every step taken in a training environment counts."""
    seed: int = 0
    """Root of every random number of the run."""
    workers: int = 1
    """Environments that are stepped in turn."""
    start_steps: int = 1_000
    """Steps with uniformly random actions before the policy acts."""
    random_share: float = 0.1
    """Share of later actions that stay uniformly random."""
    batch_size: int = 256
    """Transitions per update."""
    update_every: int = 1
    """Steps between two rounds of updates."""
    updates_per_round: int = 1
    """Updates in a round."""
    eval_every: int = 2_000
    """Steps between two scheduled evaluations."""
    eval_late_after: int = 200_000
    """From this step on evaluations are rarer."""
    eval_every_late: int = 20_000
    """Steps between two evaluations from then on."""
    eval_episodes: int = 50
    """Episodes of a scheduled evaluation."""
    eval_seed: int = 1_000_000
    """Seed of its first episode."""
    final_episodes: int = 100
    """Episodes of the final evaluation, of the last policy."""
    final_seed: int = EVALUATION_SEED
    """Seed of its first episode."""
    log_every: int = 500
    """Steps between two rows of metrics."""
    checkpoint_every: int = 20_000
    """Steps between two checkpoints; there is one at the end and one at Ctrl-C too."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            least = 0 if name in ("seed", "start_steps", "random_share", "eval_late_after") else 1
            if value < least:
                raise UserError(f"{name} must be at least {least}, got {value}")
        if self.random_share > 1.0:
            raise UserError(f"random_share must lie in [0, 1], got {self.random_share}")

    def evaluation_due(self, step: int) -> bool:
        """A scheduled evaluation belongs after this step."""
        late = step > self.eval_late_after
        return step % (self.eval_every_late if late else self.eval_every) == 0


def train(
    config: TrainConfig,
    make_env: Callable[[], Env],
    make_learner: Callable[[EnvSpec], Learner],
    make_replay: Callable[[EnvSpec, GoalReward], Replay],
    checkpoints: Checkpoints,
    run_dir: Path,
    *,
    resume: bool = False,
    resume_command: str = "the same command with resume=auto",
    logger: str = "jsonl",
    progress: bool = True,
    provenance: dict[str, Any] | None = None,
) -> TrainResult:
    """Train a learner and leave `metrics.jsonl`, `checkpoints/` and `controller/` in the run folder.

    Args:
        config: Lengths, exploration, schedules.
        make_env: A fresh environment per call: one for each worker and one for evaluations.
        make_learner: From the task's spec.
        make_replay: From the task's spec and reward.
        checkpoints: The run's own.
        run_dir: Made if needed.
        resume: Go on from the newest good checkpoint, if there is one.
        resume_command: Named when the run is interrupted.
        logger: `jsonl` or `tensorboard`.
        progress: Show a progress bar on stderr.
        provenance: JSON values saved with the controller: command, git commit.

    Raises:
        KeyboardInterrupt: After a checkpoint was saved.
    """
    run = _Run(config, make_env, make_learner, make_replay, checkpoints, run_dir, resume, logger, progress)
    run.provenance = provenance or {}
    with run, InterruptGuard() as interrupt:
        try:
            run.evaluate_if_due(interrupt)
            while run.step < config.total_steps:
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


class _Run:
    """The parts of one run and how far it is."""

    def __init__(
        self,
        config: TrainConfig,
        make_env: Callable[[], Env],
        make_learner: Callable[[EnvSpec], Learner],
        make_replay: Callable[[EnvSpec, GoalReward], Replay],
        checkpoints: Checkpoints,
        run_dir: Path,
        resume: bool,
        logger: str,
        progress: bool,
    ) -> None:
        self.config = config
        self.run_dir = run_dir
        self.step = 0
        self.provenance: dict[str, Any] = {}
        self._checkpoints = checkpoints
        self._eval_env = make_env()
        self._envs = [make_env() for _ in range(config.workers)]
        spec = self._spec = self._eval_env.spec
        self._learner = make_learner(spec)
        self._replay = make_replay(spec, self._eval_env.reward)
        self._bind = InputBinder(self._learner.manifest)
        self._low, self._high = np.float32(spec.action_low), np.float32(spec.action_high)
        self._drivers = [Driver(env, EpisodeRecorder(spec, self._take)) for env in self._envs]
        self._explore_rng = child_generator(config.seed, "exploration")
        self._reset_rng = child_generator(config.seed, "episodes")
        self._evaluations: list[ScheduledEvaluation] = []
        self._episodes = 0
        self._losses, self._outcomes = RunningMean(), RunningMean()
        saved = checkpoints.newest() if resume else None
        self.clock = RunClock(**(saved["run"][1]["clock"] if saved else {}))
        if saved:
            self._restore(saved)
        else:
            checkpoints.clear()
        self._metrics = MetricsWriter(run_dir, logger, keep_until=self.step if saved else None)
        self._bar = ProgressBar(config.total_steps, self.step, shown=progress)
        self._logged = (self.step, self.clock.wall_s)

    def __enter__(self) -> _Run:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
        self._metrics.close()
        for env in (self._eval_env, *self._envs):
            env.close()

    def say(self, line: str) -> None:
        """One line for the person who waits."""
        self._bar.say(line)

    def collect(self) -> None:
        """One step in one environment; they take turns."""
        driver = self._drivers[self.step % len(self._drivers)]
        if not driver.running:
            driver.reset(int(self._reset_rng.integers(10_000_000, 2**31)))
        driver.step(self._explore)
        self.step += 1
        self._bar.advance()

    def learn(self) -> None:
        """The updates that are due after this step."""
        config = self.config
        if self.step < config.start_steps or self.step % config.update_every or not len(self._replay):
            return
        for _ in range(config.updates_per_round):
            self._losses.add(self._learner.update(self._replay.sample(config.batch_size)))

    def log_if_due(self) -> None:
        """A row of metrics: means since the last one."""
        if self.step % self.config.log_every and self.step != self.config.total_steps:
            return
        step, wall = self._logged
        rate = (self.step - step) / max(self.clock.wall_s - wall, 1e-9)
        self._logged = (self.step, self.clock.wall_s)
        counts = {"episodes": self._episodes, "updates": self._learner.updates}
        times = {"cpu_train_s": round(self.clock.cpu_train_s, 3), "steps_per_s": round(rate, 1)}
        outcomes = self._outcomes.take()
        self._bar.show(train=outcomes.get("train_success"))
        self._metrics.write(self.step, self.clock, {**times, **counts, **outcomes, **self._losses.take()})

    def evaluate_if_due(self, interrupt: InterruptGuard) -> None:
        """A scheduled evaluation of the policy as it is."""
        config = self.config
        done = self._evaluations[-1].env_steps if self._evaluations else 0
        if self.step == done or not config.evaluation_due(self.step):
            return
        cpu_train_s = self.clock.cpu_train_s
        evaluation = self._evaluate(config.eval_episodes, config.eval_seed, interrupt)
        self._evaluations.append(ScheduledEvaluation.of(self.step, cpu_train_s, evaluation))
        self._bar.show(success=evaluation.success_rate)
        row = {f"eval_{key}": getattr(evaluation, key) for key in ("success_rate", "success_final", "success_any")}
        self._metrics.write(self.step, self.clock, {**row, "eval_mean_reward": evaluation.mean_reward})

    def save_if_due(self) -> None:
        """A checkpoint at its time; the one at the end is `finish`'s."""
        if self.step % self.config.checkpoint_every == 0 and self.step < self.config.total_steps:
            self.save()

    def save(self) -> None:
        """A checkpoint and the controller as it is now."""
        clock = self.clock
        run = {
            "step": self.step,
            "episodes": self._episodes,
            "clock": {"wall_s": clock.wall_s, "cpu_s": clock.cpu_s, "cpu_train_s": clock.cpu_train_s},
            "evaluations": [item.to_dict() for item in self._evaluations],
            "explore_rng": self._explore_rng.bit_generator.state,
            "reset_rng": self._reset_rng.bit_generator.state,
        }
        parts = {"run": ({}, run), "learner": self._learner.state(), "replay": self._replay.state()}
        self._checkpoints.save(self.step, parts)
        self._save_controller({})

    def finish(self, interrupt: InterruptGuard) -> TrainResult:
        """The last checkpoint, the final evaluation and the controller."""
        config = self.config
        self.save()
        cpu_train_s = self.clock.cpu_train_s
        final = self._evaluate(config.final_episodes, config.final_seed, interrupt)
        self._save_controller(final.to_dict())
        return TrainResult(
            task=self._spec.task,
            seed=config.seed,
            env_steps=self.step,
            updates=self._learner.updates,
            sample_updates=self._learner.updates * config.batch_size,
            evaluations=tuple(self._evaluations),
            final=final,
            wall_s=self.clock.wall_s,
            cpu_s=self.clock.cpu_s,
            cpu_train_s=cpu_train_s,
        )

    def _save_controller(self, told: dict[str, Any]) -> None:
        known = {"task": self._spec.task, "seed": self.config.seed, "env_steps": self.step}
        self._learner.save_controller(self.run_dir / "controller", {**known, **told, **self.provenance})

    def _explore(self, observation: Observation, goal: Goal) -> FloatArray:
        at_random = self._explore_rng.random() < self.config.random_share
        if self.step < self.config.start_steps or at_random:
            return self._explore_rng.uniform(self._low, self._high).astype(np.float32)
        inputs, target = self._bind(observation, goal)
        return self._learner.act(inputs[None], target[None])[0]

    def _take(self, episode: Episode) -> None:
        self._replay.add(episode)
        self._learner.observe(*_inputs(episode))
        self._episodes += 1
        success = episode.success[-1] if self._spec.success_rule == "last" else episode.success.any()
        self._outcomes.add({"train_success": float(success), "train_reward": float(episode.reward.sum())})

    def _evaluate(self, episodes: int, seed: int, interrupt: InterruptGuard) -> Evaluation:
        def watch(_: Transition) -> None:
            interrupt.check()

        with self.clock.paused():
            return evaluate(self._eval_env, self._learner.controller(), episodes, seed, on_step=watch)

    def _restore(self, saved: dict[str, Saved]) -> None:
        run = saved["run"][1]
        self._learner.restore(*saved["learner"])
        self._replay.restore(*saved["replay"])
        self.step, self._episodes = run["step"], run["episodes"]
        self._evaluations = [ScheduledEvaluation(**item) for item in run["evaluations"]]
        self._explore_rng.bit_generator.state = run["explore_rng"]
        self._reset_rng.bit_generator.state = run["reset_rng"]


def _inputs(episode: Episode) -> tuple[FloatArray, FloatArray]:
    """An episode's observations twice: with the goals pursued and with what was achieved, as hindsight will have it."""
    steps = np.arange(len(episode))
    features = episode.entities[steps, episode.goal_entity]
    observation = np.concatenate((episode.state[:-1], features), 1)
    pursued = np.where(episode.goal_mask, episode.goal_value, np.float32(0.0))
    reached = np.where(episode.goal_mask, episode.achieved[steps + 1, episode.goal_entity], np.float32(0.0))
    return np.concatenate((observation, observation)), np.concatenate((pursued, reached))
