"""From a controller to a bundle: a folder that a robot's computer can run and check without torch."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from embodied.bundle_format import (
    MANIFEST_FILE,
    MODEL_FILE,
    TRACE_FILE,
    BundleManifest,
    TraceInfo,
    read_manifest,
    sha256,
    to_dict,
)
from embodied.errors import IntegrityError, UserError
from embodied.export.onnx_file import write_onnx
from embodied.export.parity import TOLERANCE, ParityReport, check_parity
from embodied.export.recording import RecordedSteps
from embodied.spec import width_of
from embodied.types import PolicyManifest, SafetyLimits

_RECORDED_WITH = ("embodied-control", "torch", "onnx", "onnxruntime", "numpy", "mujoco", "gymnasium-robotics")
_LEAST_MARGIN = {"m": 0.5, "rad": 2 * np.pi, "m/s": 2.0, "rad/s": 10.0, "m/step": 0.2, "rad/step": 2.0}
"""How far outside the recorded range a number of this unit may always lie, in that unit; 1 for the others."""
_RANGE_MARGIN = 2.0
"""How far beyond that, in widths of the recorded range."""
_MAX_AGE_PERIODS = 3.0
"""Control periods after which an observation is too old to act upon."""


class ExportableController(Protocol):
    """A controller whose whole step, from raw numbers to action, is one torch module."""

    manifest: PolicyManifest

    @property
    def module(self) -> torch.nn.Module:
        """`module(observation (B, S+F), goal (B, G)) -> action (B, A)`."""
        ...


@dataclass(frozen=True)
class ExportResult:
    """A bundle that was written and proved equal."""

    bundle: Path
    parity_max_abs: float
    trace_steps: int
    parity_per_term: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        """The keys of a result file."""
        return {
            "bundle": str(self.bundle),
            "parity_max_abs": self.parity_max_abs,
            "trace_steps": self.trace_steps,
            "parity_per_term": dict(self.parity_per_term),
        }


def safety_limits(
    manifest: PolicyManifest,
    trace: RecordedSteps,
    hold_action: Sequence[float] | None = None,
    max_observation_age_s: float | None = None,
) -> SafetyLimits:
    """Limits from the manifest's action range and the recorded range of each input, widened generously.

    Without `hold_action` it is the zero command, which keeps robots still that take displacements, velocities or
    forces; for one that takes absolute positions, say what holds it.
    """
    low, high = np.asarray(manifest.action_low), np.asarray(manifest.action_high)
    hold = np.clip(np.zeros(len(low)), low, high) if hold_action is None else np.asarray(hold_action, dtype=np.float64)
    if hold.shape != low.shape or not np.all((low <= hold) & (hold <= high)):
        raise UserError(f"the hold action needs {len(low)} numbers within the action limits, got {hold.tolist()}")
    seen_low, seen_high = trace.observation.min(axis=0), trace.observation.max(axis=0)
    terms = (*manifest.robot_terms, *manifest.entity_terms)
    least = np.concatenate([np.full(term.width, _LEAST_MARGIN.get(term.unit, 1.0)) for term in terms])
    margin = _RANGE_MARGIN * (seen_high - seen_low) + least
    return SafetyLimits(
        action_low=manifest.action_low,
        action_high=manifest.action_high,
        observation_low=tuple((seen_low - margin).tolist()),
        observation_high=tuple((seen_high + margin).tolist()),
        max_observation_age_s=max_observation_age_s or _MAX_AGE_PERIODS / manifest.control_hz,
        hold_action=tuple(hold.tolist()),
    )


def export_bundle(
    controller: ExportableController,
    trace: RecordedSteps,
    out: Path,
    *,
    limits: SafetyLimits | None = None,
    hold_behaviour: str = "zero command: stay where you are",
    tolerance: float = TOLERANCE,
    provenance: Mapping[str, Any] | None = None,
) -> ExportResult:
    """Writes the bundle `out`, proved equal to the controller on every step of `trace`.

    It is made in a folder beside `out` and renamed at the end, so that `out` never holds half a bundle; one that was
    there before is replaced only by one that passed.

    Raises:
        ParityError: The file does not answer as the controller did; nothing is left behind.
        UserError: `out` is something else than a bundle, or the trace is too short.
    """
    out = Path(out)
    _refuse_foreign(out)
    limits = limits or safety_limits(controller.manifest, trace)
    draft = out.parent / f".{out.name}.draft-{os.getpid()}"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        result = _write(controller, trace, draft, limits, hold_behaviour, tolerance, provenance or {})
        _replace(draft, out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return ExportResult(out, result.max_abs, result.steps, result.per_term)


def _write(
    controller: ExportableController,
    trace: RecordedSteps,
    folder: Path,
    limits: SafetyLimits,
    hold_behaviour: str,
    tolerance: float,
    provenance: Mapping[str, Any],
) -> ParityReport:
    policy = controller.manifest
    observation_width = width_of(policy.robot_terms) + width_of(policy.entity_terms)
    model = write_onnx(controller.module, observation_width, width_of(policy.goal_terms), folder / MODEL_FILE)
    parity = check_parity(folder / MODEL_FILE, trace, policy, tolerance)
    trace.write(folder / TRACE_FILE)
    manifest = BundleManifest(
        policy=policy,
        limits=limits,
        hold_behaviour=hold_behaviour,
        trace=TraceInfo(parity.steps, tolerance, parity.max_abs),
        opset=next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")),
        ir_version=model.ir_version,
        files={name: sha256((folder / name).read_bytes()) for name in (MODEL_FILE, TRACE_FILE)},
        versions={"python": platform.python_version(), **{name: _version(name) for name in _RECORDED_WITH}},
        provenance=provenance,
    )
    text = json.dumps(to_dict(manifest), indent=2, allow_nan=False, ensure_ascii=False)
    (folder / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")
    read_manifest(folder)
    return parity


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _refuse_foreign(out: Path) -> None:
    if not out.exists():
        return
    if not out.is_dir():
        raise UserError(f"'{out}' is a file; give the path of a folder for the bundle")
    if not any(out.iterdir()):
        return
    try:
        read_manifest(out)
    except IntegrityError:
        raise UserError(f"'{out}' exists and holds something else than a bundle; choose another folder") from None


def _replace(draft: Path, out: Path) -> None:
    old = draft.with_name(draft.name + ".old")
    if out.exists():
        out.rename(old)
    draft.rename(out)
    shutil.rmtree(old, ignore_errors=True)
