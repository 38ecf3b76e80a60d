"""Proof that an exported file answers as its controller does, step by step over everything that was recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from embodied.bundle_format import ACTION_OUTPUT, GOAL_INPUT, OBSERVATION_INPUT, component_names
from embodied.errors import ParityError, UserError
from embodied.export.recording import MIN_STEPS, RecordedSteps
from embodied.protocols import Controller, Env
from embodied.types import FloatArray, PolicyManifest

TOLERANCE = 1e-5
"""Greatest absolute difference in action units."""


@dataclass(frozen=True)
class ParityReport:
    """How far the file is from the controller."""

    max_abs: float
    """Over all episodes, steps and action components, of both ways to call the file."""
    steps: int
    episodes: int
    per_term: Mapping[str, float]
    """Largest difference of each action component, by name."""


@dataclass(frozen=True)
class ClosedLoop:
    """Success rates of the controller and of its file on the same episodes."""

    policy: float
    file: float


def replay_file(model: Path, recorded: RecordedSteps, batched: bool) -> FloatArray:
    """The file's answers (N, A): in one call, or one call a step as on the robot."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model.read_bytes(), options, providers=["CPUExecutionProvider"])

    def answer(observation: FloatArray, goal: FloatArray) -> FloatArray:
        return session.run([ACTION_OUTPUT], {OBSERVATION_INPUT: observation, GOAL_INPUT: goal})[0]

    if batched:
        return answer(recorded.observation, recorded.goal)
    rows = range(len(recorded))
    return np.concatenate([answer(recorded.observation[i : i + 1], recorded.goal[i : i + 1]) for i in rows])


def check_parity(
    model: Path,
    recorded: RecordedSteps,
    manifest: PolicyManifest,
    tolerance: float = TOLERANCE,
    min_steps: int = MIN_STEPS,
) -> ParityReport:
    """Replays every recorded step through the file and compares it with what the controller answered.

    Raises:
        ParityError: A component differs by more than `tolerance` (or is not a number); the message names each such
            component, its worst step and both values.
        UserError: There are fewer than `min_steps` recorded steps.
    """
    if len(recorded) < min_steps:
        raise UserError(f"parity needs at least {min_steps} recorded steps, got {len(recorded)}: record more episodes")
    differences = []
    for batched in (False, True):
        answers = replay_file(model, recorded, batched)
        if answers.shape != recorded.action.shape:
            raise ParityError(f"the file answers with shape {answers.shape}, expected {recorded.action.shape}")
        difference = np.abs(answers.astype(np.float64) - recorded.action)
        _refuse_mismatch(difference, answers, recorded, manifest, tolerance)
        differences.append(difference)
    worst = np.maximum(*differences).max(axis=0)
    return ParityReport(
        max_abs=float(worst.max()),
        steps=len(recorded),
        episodes=len(np.unique(recorded.episode)),
        per_term=dict(zip(component_names(manifest.action_terms), worst.tolist(), strict=True)),
    )


def _refuse_mismatch(
    difference: NDArray[np.float64],
    answers: FloatArray,
    recorded: RecordedSteps,
    manifest: PolicyManifest,
    tolerance: float,
) -> None:
    found = []
    ranked = np.where(np.isfinite(difference), difference, np.inf)
    for column, name in enumerate(component_names(manifest.action_terms)):
        row = int(ranked[:, column].argmax())
        if ranked[row, column] <= tolerance:
            continue
        episode = int(recorded.episode[row])
        step = row - int(np.searchsorted(recorded.episode, episode))
        found.append(
            f"{name} by {difference[row, column]:.3g} at step {step} of episode {episode} "
            f"(controller {recorded.action[row, column]:+.6g}, file {answers[row, column]:+.6g})"
        )
    if found:
        raise ParityError(
            f"the exported file is not equal to its controller within {tolerance:g}: it differs in {'; '.join(found)}"
        )


def closed_loop_success(
    env: Env,
    controller: Controller,
    runtime_controller: Controller,
    evaluate: Callable[[Env, Controller, int, int], Any],
    episodes: int,
    seed: int,
) -> ClosedLoop:
    """Success rates of controller and file over the same seeds.

    Args:
        evaluate: The project's evaluation, `(env, controller, episodes, seed)`, whose result has `success_rate`.
    """
    return ClosedLoop(
        policy=float(evaluate(env, controller, episodes, seed).success_rate),
        file=float(evaluate(env, runtime_controller, episodes, seed).success_rate),
    )
