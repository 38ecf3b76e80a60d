"""One training of a peer (Stable-Baselines3, https://stable-baselines3.readthedocs.io), measured as ours are.

`python -m embodied_launch.bench.sb3_run <order.json>` reads what is asked for and writes the result beside it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embodied.errors import EmbodiedError, UserError
from embodied.run.config import TrainConfig
from embodied.run.evaluate import Evaluation, evaluate
from embodied.run.metrics import RunClock
from embodied.run.result import ScheduledEvaluation, TrainResult

from .. import build
from .adapter import PeerController
from .systems import SAMPLED_GOALS, System, find_systems

if TYPE_CHECKING:
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm


def train_peer(system: System, task: str, loop: TrainConfig) -> TrainResult:
    """Trains a peer on Gymnasium's own environment of the task and evaluates it with our loop.

    Args:
        system: A peer.
        task: A task that is one of Gymnasium's.
        loop: Seed, lengths and the schedule of evaluations; the rest of it is ours alone.

    Raises:
        UserError: The task is not one of Gymnasium's.
    """
    build.one_thread()
    from embodied.learning.controller import manifest_of
    from robots.goal_layout import goal_layout_of
    from robots.registry import make_env

    with closing(make_env(task)) as judge:
        layout = goal_layout_of(judge)
        if layout.env_spec is None:
            raise UserError(f"{task} is none of Gymnasium's tasks: peers cannot train on it; use systems=ours")
        model = make_model(system, layout.env_spec, loop.seed)
        controller = PeerController(model, layout, manifest_of(judge.spec))
        run = _Measured(loop, lambda episodes, seed: evaluate(judge, controller, episodes, seed))
        model.learn(total_timesteps=loop.total_steps, callback=run.callback())
        return run.finish(task, system, model)


def make_model(system: System, env_spec: str, seed: int) -> OffPolicyAlgorithm:
    """A peer's learner on a fresh environment, one thread, hindsight goals of the strategy `future`."""
    import sb3_contrib
    import stable_baselines3
    import torch
    from gymnasium.envs.registration import EnvSpec

    from robots.base import load_gymnasium

    torch.set_num_threads(1)
    env = load_gymnasium().make(EnvSpec.from_json(env_spec))
    # Gymnasium-Robotics writes a maze to the folder for temporary files and leaves it there.
    if hasattr(env.unwrapped, "tmp_xml_file_path"):
        Path(env.unwrapped.tmp_xml_file_path).unlink(missing_ok=True)
    package = sb3_contrib if system.algorithm == "TQC" else stable_baselines3
    policy: dict[str, Any] = {"net_arch": list(system.hidden), "n_critics": 2}
    return getattr(package, system.algorithm)(
        "MultiInputPolicy", env, seed=seed, device="cpu", policy_kwargs=policy,
        replay_buffer_class=stable_baselines3.HerReplayBuffer,
        replay_buffer_kwargs={"n_sampled_goal": SAMPLED_GOALS, "goal_selection_strategy": "future"},
        **system.settings,
    )  # fmt: skip


class _Measured:
    """Evaluations at their times and the clock that they do not count on."""

    def __init__(self, loop: TrainConfig, judge: Callable[[int, int], Evaluation]) -> None:
        self._loop, self._judge = loop, judge
        self._clock = RunClock()
        self._evaluations: list[ScheduledEvaluation] = []

    def callback(self) -> BaseCallback:
        """For the peer's `learn`: it is asked after every step."""
        from stable_baselines3.common.callbacks import BaseCallback

        after_step = self._after_step

        class EveryStep(BaseCallback):
            def _on_step(self) -> bool:
                return after_step(self.num_timesteps)

        return EveryStep()

    def finish(self, task: str, system: System, model: OffPolicyAlgorithm) -> TrainResult:
        """The final evaluation, and all that was measured."""
        loop, cpu_train_s, updates = self._loop, self._clock.cpu_train_s, int(model._n_updates)
        with self._clock.paused():
            final = self._judge(loop.final_episodes, loop.final_seed)
        steps = model.num_timesteps
        return TrainResult(
            task=task, seed=loop.seed, env_steps=steps, updates=updates,
            sample_updates=updates * system.settings["batch_size"], evaluations=tuple(self._evaluations), final=final,
            wall_s=self._clock.wall_s, cpu_s=self._clock.cpu_s, cpu_train_s=cpu_train_s, checkpoint_s=0.0,
            stopped_at=steps if steps < loop.total_steps else None,
        )  # fmt: skip

    def _after_step(self, step: int) -> bool:
        """Whether to go on."""
        loop, clock = self._loop, self._clock
        if loop.evaluation_due(step):
            cpu_train_s = clock.cpu_train_s
            with clock.paused():
                evaluation = self._judge(loop.eval_episodes, loop.eval_seed)
            self._evaluations.append(ScheduledEvaluation.of(step, cpu_train_s, evaluation))
            print(f"step {step}: success {evaluation.success_rate:.2f}, {cpu_train_s:.0f} CPU-s", file=sys.stderr)
        return loop.max_cpu_s is None or clock.cpu_train_s < loop.max_cpu_s


def main(order: Path) -> int:
    """Carries out an order: `system`, `task`, `loop`, and `result`, the file to write."""
    asked = json.loads(order.read_text("utf-8"))
    try:
        system = find_systems([asked["system"]])[0].on(asked["task"])
        result = train_peer(system, asked["task"], TrainConfig(**asked["loop"]))
    except EmbodiedError as error:
        print(error, file=sys.stderr)
        return 2
    Path(asked["result"]).write_text(json.dumps(result.to_dict()), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
