"""How long a training is, how it explores, and when it is looked at."""

from __future__ import annotations

from dataclasses import dataclass

from embodied.errors import UserError
from embodied.run.evaluate import EVALUATION_SEED

MAX_WORKERS = 256
"""Each holds a simulator of its own."""
LENGTHS = ("total_steps", "max_cpu_s", "checkpoint_every")
"""Settings that a resumed run may change: they do not change what is computed up to where it stands."""

PLAIN = ("total_steps", "seed", "workers")
"""Settings that a user writes without `loop.` before them."""


def key_of(name: str) -> str:
    """A setting as a user writes it."""
    return name if name in PLAIN else f"loop.{name}"


@dataclass(frozen=True)
class TrainConfig:
    """How long a run is, how it explores, and when it is evaluated, logged and saved. Steps are environment steps."""

    total_steps: int = 200_000
    """Every step taken in a training environment counts."""
    max_cpu_s: float | None = None
    """Training ends before that once it took so many processor seconds, evaluations not counted."""
    seed: int = 0
    """Root of every random number of the run."""
    workers: int = 1
    """Environments that are stepped in turn."""
    start_steps: int = 1_000
    """Steps with uniformly random actions before the policy acts."""
    random_share: float = 0.1
    """Share of later actions that stay uniformly random."""
    random_until: int | None = None
    """It declines linearly and ends at this step; None: it stays."""
    ends_at_goal: int = 0
    """A training episode is broken off, as by a time limit, once it was at the task's goal for so many steps in a row;
    0: it goes on."""
    ends_after: int | None = None
    """A training episode is broken off after so many steps; None: at the task's horizon."""
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
    checkpoint_every: int = 2_500
    """Steps between two checkpoints, and so the most that is redone after a crash; there is one at the end and one at
    Ctrl-C too."""

    def __post_init__(self) -> None:
        if self.max_cpu_s is not None and not self.max_cpu_s > 0:
            raise UserError(f"loop.max_cpu_s must be more than 0, got {self.max_cpu_s}")
        for name, value in vars(self).items():
            if name == "max_cpu_s" or value is None:
                continue
            least = 0 if name in ("seed", "start_steps", "random_share", "ends_at_goal", "eval_late_after") else 1
            if not value >= least:
                raise UserError(f"{key_of(name)} must be at least {least}, got {value}")
        if self.workers > MAX_WORKERS:
            raise UserError(f"workers must be at most {MAX_WORKERS}, got {self.workers}")
        if self.random_share > 1.0:
            raise UserError(f"loop.random_share must lie in [0, 1], got {self.random_share}")

    @property
    def never_learns(self) -> bool:
        """All steps are over before the first update."""
        return self.start_steps > self.total_steps

    def random_share_at(self, step: int) -> float:
        """Share of random actions at this step."""
        if step < self.start_steps:
            return 1.0
        return self.random_share * (1.0 if self.random_until is None else max(0.0, 1.0 - step / self.random_until))

    def evaluation_due(self, step: int) -> bool:
        """A scheduled evaluation belongs after this step."""
        late = step > self.eval_late_after
        return step % (self.eval_every_late if late else self.eval_every) == 0
