"""One run under way: its parts, how far it is, and how it is taken up again."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from embodied.binding import InputBinder
from embodied.errors import IntegrityError
from embodied.protocols import Env, GoalReward
from embodied.rng import child_generator
from embodied.run.config import TrainConfig
from embodied.run.driver import Transition
from embodied.run.evaluate import Evaluation, evaluate
from embodied.run.interrupt import InterruptGuard
from embodied.run.metrics import MetricsWriter, RunClock, RunningMean
from embodied.run.parts import Checkpoints, Explorer, Learner, Recorder, RecorderMaker, Replay, Saved
from embodied.run.progress import ProgressBar
from embodied.run.result import ScheduledEvaluation, TrainResult
from embodied.run.same import RunIdentity
from embodied.run.worker import Worker
from embodied.spec import EnvSpec
from embodied.types import Episode, FloatArray, Goal, Observation, Outcome

CONTROLLER = "controller"
"""Folder within the run's that the policy lies in as it is at each checkpoint."""


class Session:
    """The parts of one run and how far it is; a context manager that lets go of them."""

    def __init__(
        self,
        config: TrainConfig,
        make_env: Callable[[], Env],
        make_learner: Callable[[EnvSpec], Learner],
        make_replay: Callable[[EnvSpec, GoalReward], Replay],
        checkpoints: Checkpoints,
        run_dir: Path,
        *,
        make_explorer: Callable[[EnvSpec], Explorer | None],
        make_recorder: RecorderMaker | None,
        demonstrations: Iterable[Episode],
        identity: RunIdentity,
        provenance: dict[str, Any],
        resume: bool,
        logger: str,
        progress: bool,
    ) -> None:
        self.config, self.run_dir, self.provenance = config, run_dir, provenance
        self.step, self.saved_step = 0, None
        self._identity, self._checkpoints = identity, checkpoints
        self._eval_env = make_env()
        spec = self._spec = self._eval_env.spec
        ends = config.ends_at_goal, config.ends_after
        self._workers = [Worker(make_env(), self._take, *ends) for _ in range(config.workers)]
        self._learner = make_learner(spec)
        self._replay = make_replay(spec, self._eval_env.reward)
        self._explorer = make_explorer(spec)
        self._recorder: Recorder | None = None
        self._bind = InputBinder(self._learner.manifest)
        self._low, self._high = np.float32(spec.action_low), np.float32(spec.action_high)
        self._explore_rng = child_generator(config.seed, "exploration")
        self._reset_rng = child_generator(config.seed, "episodes")
        self._evaluations: list[ScheduledEvaluation] = []
        self._episodes = 0
        self._losses, self._outcomes = RunningMean(), RunningMean()
        self._saving_s = 0.0
        self.clock = RunClock()
        self._metrics = MetricsWriter(run_dir, logger)
        resumed = resume and self._resume()
        begun = identity.began(run_dir, (lambda line: None) if resumed else self._warn) if resume else None
        if make_recorder is not None:
            # A run that was begun and has no checkpoint yet drops what it recorded; a fresh one overwrites nothing.
            goes_on = begun is not None and begun["record"] == identity.record
            self._recorder = make_recorder(self._episodes if goes_on else None)
        if resumed and begun is not None and begun["record"] != identity.record:
            self._warn(f"recorded from episode {self._episodes} on: {identity.record or 'nothing'}")
            identity.begin(run_dir)
        if not resumed:
            if begun is not None:
                self._warn(f"nothing had been saved in '{run_dir}' yet: the run begins anew")
            self._begin(demonstrations)
        self._bar = ProgressBar(config.total_steps, self.step, shown=progress)
        self._logged = (self.step, self.clock.wall_s)
        if self.step >= config.total_steps and resumed:
            self._warn(f"the run is at step {self.step:,} already: nothing is left to train, it is evaluated again")
        if config.never_learns:
            self._warn(
                f"loop.start_steps={config.start_steps} is more than total_steps={config.total_steps}: nothing will be "
                "learned"
            )
        if progress:
            self.say(f"{self._replay.summary}{f'; going on from step {self.step:,}' if resumed else ''}")

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
        # After a full disk each of these may fail again; the first error is the one to tell.
        for part in (self._metrics, self._replay, self._recorder, self._eval_env, *(w.env for w in self._workers)):
            with suppress(OSError):
                if part is not None:
                    part.close()

    @property
    def over(self) -> bool:
        """All steps are taken, or the processor time is used up."""
        limit = self.config.max_cpu_s
        return self.step >= self.config.total_steps or (limit is not None and self.clock.cpu_train_s >= limit)

    def say(self, line: str) -> None:
        """One line for the person who waits."""
        self._bar.say(line)

    def collect(self) -> None:
        """One step in one environment; they take turns."""
        index, explorer = self.step % len(self._workers), self._explorer
        worker = self._workers[index]
        if not worker.running:
            worker.begin(int(self._reset_rng.integers(10_000_000, 2**31)))
            if explorer is not None:
                explorer.begin(index)
        if explorer is None:
            worker.step(self._explore)
        else:
            task = worker.task_goal
            worker.step(
                lambda observation, goal: explorer.restrain(index, observation, task, self._explore(observation, goal)),
                lambda observation, _: explorer.pursue(index, observation, task),
                lambda step: explorer.over(index, step.observation, task),
            )
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
        began, clock = time.perf_counter(), self.clock
        run = {
            **self._identity.to_dict(),
            "step": self.step,
            "episodes": self._episodes,
            "clock": {"wall_s": clock.wall_s, "cpu_s": clock.cpu_s, "cpu_train_s": clock.cpu_train_s},
            "evaluations": [item.to_dict() for item in self._evaluations],
            "explore_rng": self._explore_rng.bit_generator.state,
            "reset_rng": self._reset_rng.bit_generator.state,
            "metrics": self._metrics.state(),
            "means": {"losses": self._losses.state(), "outcomes": self._outcomes.state()},
            "workers": [worker.state() for worker in self._workers],
            "explorer": None if self._explorer is None else self._explorer.state(),
        }
        if self._recorder is not None:
            self._recorder.sync()
        parts = {"run": ({}, run), "learner": self._learner.state(), "replay": self._replay.state()}
        self._checkpoints.save(self.step, parts)
        self._save_controller({})
        self.saved_step = self.step
        self._saving_s += time.perf_counter() - began

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
            checkpoint_s=self._saving_s,
            stopped_at=self.step if self.step < config.total_steps else None,
            warning=self._warning(),
        )

    def _warning(self) -> str | None:
        """What a reader of the result has to know: that nothing was learned, and why."""
        if self._learner.updates:
            return None
        config = self.config
        if config.never_learns:
            why = f"loop.start_steps={config.start_steps} is more than total_steps={config.total_steps}"
        elif not len(self._replay):
            why = f"no episode was finished within {self.step} steps"
        else:
            why = f"no update was due within {self.step} steps"
        return f"nothing was learned, the controller is as it was begun: {why}"

    def _begin(self, demonstrations: Iterable[Episode]) -> None:
        """A run from nothing."""
        self._checkpoints.clear()
        shutil.rmtree(self.run_dir / CONTROLLER, ignore_errors=True)
        self._identity.begin(self.run_dir)
        self._replay.begin()
        self._metrics.begin()
        for episode in demonstrations:
            self._replay.add(episode)
            self._learner.observe(*_inputs(episode))

    def _resume(self) -> bool:
        """Takes up the newest checkpoint that is whole; False where there is none at all.

        Raises:
            IntegrityError: There are checkpoints, but none can be used; or there are none although there were.
        """
        last = ""
        for saved in self._checkpoints.newest_first():
            try:
                self._restore(saved)
                return True
            except IntegrityError as error:
                last = f": {error}"
                self._warn(f"passing over the checkpoint at step {saved['run'][1]['step']:,}: {error}")
        if self._checkpoints.any:
            raise IntegrityError(
                f"no checkpoint in '{self.run_dir}' can be used{last}; "
                "copy the whole run folder again, or train in another run_dir="
            )
        if (self.run_dir / CONTROLLER).exists():
            # It comes with every checkpoint: there was one.
            raise IntegrityError(
                f"'{self.run_dir}' holds a controller but no checkpoint to go on from: copy the whole run folder "
                "again, or train in another run_dir="
            )
        return False

    def _restore(self, saved: dict[str, Saved]) -> None:
        run = saved["run"][1]
        self._identity.check(run, self._warn)
        self._learner.restore(*saved["learner"])
        self._replay.restore(*saved["replay"])
        self._metrics.restore(run["metrics"])
        self.step = self.saved_step = run["step"]
        self._episodes = run["episodes"]
        self._evaluations = [ScheduledEvaluation(**item) for item in run["evaluations"]]
        self._explore_rng.bit_generator.state = run["explore_rng"]
        self._reset_rng.bit_generator.state = run["reset_rng"]
        self._losses.restore(run["means"]["losses"])
        self._outcomes.restore(run["means"]["outcomes"])
        self.clock = RunClock(**run["clock"])
        for worker, state in zip(self._workers, run["workers"], strict=True):
            worker.restore(state)
        if self._explorer is not None:
            self._explorer.restore(run["explorer"])

    @staticmethod
    def _warn(line: str) -> None:
        print(line, file=sys.stderr)

    def _save_controller(self, told: dict[str, Any]) -> None:
        known = {"task": self._spec.task, "seed": self.config.seed, "env_steps": self.step}
        self._learner.save_controller(self.run_dir / CONTROLLER, {**known, **told, **self.provenance})

    def _explore(self, observation: Observation, goal: Goal) -> FloatArray:
        if self._explore_rng.random() < self.config.random_share_at(self.step):
            return self._explore_rng.uniform(self._low, self._high).astype(np.float32)
        inputs, target = self._bind(observation, goal)
        return self._learner.act(inputs[None], target[None])[0]

    def _take(self, episode: Episode, task: Goal) -> None:
        self._replay.add(episode)
        if self._recorder is not None:
            self._recorder.add(episode)
        self._learner.observe(*_inputs(episode))
        self._episodes += 1
        reached, reward = episode.success, episode.reward
        if self._explorer is not None:
            judged = self._by_task(episode, task)
            reached, reward = judged.success, judged.reward
        success = reached[-1] if self._spec.success_rule == "last" else reached.any()
        self._outcomes.add({"train_success": float(success), "train_reward": float(reward.sum())})

    def _by_task(self, episode: Episode, task: Goal) -> Outcome:
        """What an episode's steps are worth by the task's own goal."""
        achieved = episode.achieved[1:, self._spec.layout.entity_index(task.entity)]
        value, mask = (np.broadcast_to(part, achieved.shape) for part in (task.value, task.mask))
        return self._eval_env.reward(achieved, value, mask)

    def _evaluate(self, episodes: int, seed: int, interrupt: InterruptGuard) -> Evaluation:
        def watch(_: Transition) -> None:
            interrupt.check()

        with self.clock.paused():
            return evaluate(self._eval_env, self._learner.controller(), episodes, seed, on_step=watch)


def _inputs(episode: Episode) -> tuple[FloatArray, FloatArray]:
    """An episode's observations twice: with the goals pursued and with what was achieved, as hindsight will have it."""
    steps = np.arange(len(episode))
    features = episode.entities[steps, episode.goal_entity]
    observation = np.concatenate((episode.state[:-1], features), 1)
    pursued = np.where(episode.goal_mask, episode.goal_value, np.float32(0.0))
    reached = np.where(episode.goal_mask, episode.achieved[steps + 1, episode.goal_entity], np.float32(0.0))
    return np.concatenate((observation, observation)), np.concatenate((pursued, reached))
