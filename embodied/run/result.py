"""What a training run came to, under the keys of its result file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from embodied.run.evaluate import Evaluation

THRESHOLDS = (0.5, 0.8, 0.9, 0.95)
"""Success rates whose first crossing is reported."""


@dataclass(frozen=True)
class ScheduledEvaluation:
    """A point of the learning curve."""

    env_steps: int
    cpu_train_s: float
    success_rate: float
    success_final: float
    success_any: float
    episodes: int

    @classmethod
    def of(cls, env_steps: int, cpu_train_s: float, evaluation: Evaluation) -> ScheduledEvaluation:
        """From an evaluation at this point of the run."""
        return cls(
            env_steps=env_steps,
            cpu_train_s=round(cpu_train_s, 3),
            success_rate=evaluation.success_rate,
            success_final=evaluation.success_final,
            success_any=evaluation.success_any,
            episodes=evaluation.episodes,
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class TrainResult:
    """A finished run."""

    task: str
    seed: int
    env_steps: int
    updates: int
    sample_updates: int
    evaluations: tuple[ScheduledEvaluation, ...]
    final: Evaluation
    wall_s: float
    cpu_s: float
    cpu_train_s: float
    checkpoint_s: float
    """Wall time that this process spent writing checkpoints."""
    stopped_at: int | None = None
    """Step at which the processor time was used up; None: all steps were taken."""
    warning: str | None = None
    """Where nothing was learned: why."""

    def to_dict(self) -> dict[str, Any]:
        """The keys of `result.json` that a run knows."""
        points = {threshold: first_reached(self.evaluations, threshold) for threshold in THRESHOLDS}
        return {
            "task": self.task,
            "seed": self.seed,
            "wall_s": round(self.wall_s, 3),
            "cpu_s": round(self.cpu_s, 3),
            "cpu_train_s": round(self.cpu_train_s, 3),
            "checkpoint_s": round(self.checkpoint_s, 3),
            "env_steps": self.env_steps,
            "stopped_at": self.stopped_at,
            "warning": self.warning,
            "updates": self.updates,
            "sample_updates": self.sample_updates,
            **self.final.to_dict(),
            "evaluations": [item.to_dict() for item in self.evaluations],
            "steps_to": {str(key): point.env_steps if point else None for key, point in points.items()},
            "cpu_s_to": {str(key): point.cpu_train_s if point else None for key, point in points.items()},
        }


def first_reached(evaluations: Sequence[ScheduledEvaluation], threshold: float) -> ScheduledEvaluation | None:
    """The first of two evaluations in a row at or above the threshold; None where there is no such pair."""
    for first, second in zip(evaluations, evaluations[1:], strict=False):
        if min(first.success_rate, second.success_rate) >= threshold:
            return first
    return None
