"""Randomness as an argument: one root seed, named children, never a global generator."""

from __future__ import annotations

import hashlib

import numpy as np


def child_seed(seed: int, name: str) -> int:
    """A 63-bit seed for the child called `name`; stable across processes, machines and the order of calls."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def child_generator(seed: int, name: str) -> np.random.Generator:
    """A numpy generator for the child called `name` of the root `seed`."""
    return np.random.default_rng(child_seed(seed, name))
