"""A fit's state on disk, without pickle: parameters, Adam's moments, and how many epochs are over."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from embodied.errors import IntegrityError

Progress = Callable[[str, float], None]
"""Called with what is being done and the share of it that is."""


class Fit(Protocol):
    """A training that can be taken up again after any epoch."""

    epoch: int
    config: Any

    @property
    def done(self) -> bool:
        """Whether all epochs are over."""
        ...

    def run_epoch(self, progress: Callable[[int, int, float], None] | None = None) -> float:
        """One epoch; its mean loss. Called with (steps done, steps of the epoch, loss) after each step."""
        ...

    def save(self, path: Path) -> None:
        """Networks, optimiser and epoch."""
        ...

    def restore(self, path: Path) -> None:
        """Undo `save`."""
        ...


def run_epochs(fit: Fit, path: Path, what: str, progress: Progress) -> list[float]:
    """The losses of all epochs; what is at `path` is taken up, and after each epoch it is there again.

    Args:
        fit: As it was made.
        path: Of its state; the losses lie beside it as JSON.
        what: Is fitted, for the progress.
        progress: See `Progress`.
    """
    if path.exists():
        fit.restore(path)
    told = path.with_suffix(".json")
    losses: list[float] = json.loads(told.read_text("utf-8")) if told.exists() else []
    losses = losses[: fit.epoch]
    while not fit.done:
        losses.append(fit.run_epoch(partial(_tell, progress, fit, what)))
        told.write_text(json.dumps(losses), "utf-8")
        fit.save(path)
    return losses


def _tell(progress: Progress, fit: Fit, what: str, step: int, steps: int, loss: float) -> None:
    progress(f"fitting {what}, loss {loss:.2f}", (fit.epoch + step / steps) / fit.config.epochs)


def save_fit(path: Path, module: Any, optimiser: Any, epoch: int, locked: str = "\0") -> None:
    """Writes `path`, whole or not at all.

    Args:
        module: Its tensors are saved, but for those whose names start with `locked`.
        optimiser: Of its parameters.
        epoch: How many are over.
    """
    from safetensors.torch import save_file

    names = {id(parameter): name for name, parameter in module.named_parameters()}
    tensors = {f"net.{name}": value for name, value in module.state_dict().items() if not name.startswith(locked)}
    for parameter, state in optimiser.state.items():
        tensors.update({f"opt.{names[id(parameter)]}/{key}": value for key, value in state.items()})
    partial = path.with_suffix(".partial")
    save_file({name: v.detach().clone().contiguous() for name, v in tensors.items()}, partial, {"epoch": str(epoch)})
    partial.replace(path)


def restore_fit(path: Path, module: Any, optimiser: Any) -> int:
    """Undo `save_fit`; the epoch.

    Raises:
        IntegrityError: The file is damaged or of another network.
    """
    from safetensors import safe_open

    try:
        with safe_open(path, "pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (no mapping)
            epoch = int(file.metadata()["epoch"])
        module.load_state_dict({k[4:]: v for k, v in tensors.items() if k.startswith("net.")}, strict=False)
        for name, parameter in module.named_parameters():
            start = f"opt.{name}/"
            kept = {key[len(start) :]: value for key, value in tensors.items() if key.startswith(start)}
            if kept:
                optimiser.state[parameter] = kept
    except Exception as error:  # safetensors, shapes, keys: a checkpoint that cannot be used
        raise IntegrityError(f"{path} cannot be taken up ({type(error).__name__}); delete it") from None
    return epoch


def rate_at(step: int, steps: int, highest: float) -> float:
    """A learning rate that rises over a twentieth of the steps and falls to 0 like a cosine (arXiv 1608.03983)."""
    warm = max(1, steps // 20)
    if step < warm:
        return highest * (step + 1) / warm
    return highest * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))
