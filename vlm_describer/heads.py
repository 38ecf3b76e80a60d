"""Small perceptrons that name a thing from what a tower saw and what geometry says; applied in numpy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from embodied.errors import IntegrityError
from embodied.types import FloatArray

HIDDEN = 128
"""Width of the one hidden layer."""
_PARTS = ("mean", "scale", "in_weight", "in_bias", "out_weight", "out_bias")


@dataclass(frozen=True)
class Head:
    """Standardised inputs, one hidden layer with relu, logits."""

    mean: FloatArray
    """(I,)"""
    scale: FloatArray
    """(I,) what inputs less their mean are divided by."""
    in_weight: FloatArray
    """(I, H)"""
    in_bias: FloatArray
    out_weight: FloatArray
    """(H, K)"""
    out_bias: FloatArray

    def logits(self, inputs: FloatArray) -> FloatArray:
        """(N, I) to (N, K)."""
        hidden = np.maximum((inputs - self.mean) / self.scale @ self.in_weight + self.in_bias, 0.0)
        return np.asarray(hidden @ self.out_weight + self.out_bias, dtype=np.float32)


def save_heads(heads: Mapping[str, Head], path: Path) -> None:
    """By name, as safetensors."""
    from safetensors.numpy import save_file

    tensors = {f"{name}.{part}": getattr(head, part) for name, head in heads.items() for part in _PARTS}
    save_file({name: np.ascontiguousarray(value, dtype=np.float32) for name, value in tensors.items()}, path)


def load_heads(path: Path) -> dict[str, Head]:
    """What `save_heads` wrote.

    Raises:
        IntegrityError: The file is missing or holds no heads.
    """
    from safetensors.numpy import load_file

    try:
        tensors = load_file(path)
        names = sorted({key.rsplit(".", 1)[0] for key in tensors})
        return {name: Head(*(tensors[f"{name}.{part}"] for part in _PARTS)) for name in names}
    except Exception as error:  # safetensors has an error of its own that is no OSError
        raise IntegrityError(f"{path} holds no heads ({type(error).__name__}); fit the model again") from None
