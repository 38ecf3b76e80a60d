"""The deployment bundle on disk: what its manifest says, and the checks before anything in it is used.

A bundle is a folder with `manifest.json`, one ONNX file and a golden trace. The exporter writes it, the runtime on the
robot reads it; this module is what both agree on.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embodied.errors import IntegrityError
from embodied.seal import check_seal, sealed
from embodied.spec import Term, width_of
from embodied.types import PolicyManifest, SafetyLimits

FORMAT = "embodied-bundle"
SCHEMA = 1
MANIFEST_FILE = "manifest.json"
MODEL_FILE = "policy.onnx"
TRACE_FILE = "trace.npz"
OBSERVATION_INPUT, GOAL_INPUT, ACTION_OUTPUT = "observation", "goal", "action"

_MAX_MANIFEST_BYTES = 4 << 20
_KINDS = {"m": "displacement", "rad": "rotation", "N": "force", "N m": "torque", "m/s": "velocity", "rad/s": "velocity"}


@dataclass(frozen=True)
class TraceInfo:
    """The golden trace that travels with a bundle."""

    steps: int
    tolerance: float
    """Greatest absolute difference, in action units, at which the file still counts as equal."""
    max_abs: float
    """The difference that was measured at export."""


@dataclass(frozen=True)
class BundleManifest:
    """All that a runtime has to know to drive a robot with the file beside it."""

    policy: PolicyManifest
    limits: SafetyLimits
    hold_behaviour: str
    """What `limits.hold_action` does, in words."""
    trace: TraceInfo
    opset: int
    ir_version: int
    files: Mapping[str, str]
    """sha256 of every other file of the bundle, by its name."""
    versions: Mapping[str, str | None] = field(default_factory=dict)
    """What the bundle was made with."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Where the controller came from: git commit, seed, command, as far as it is known."""


def sha256(data: bytes) -> str:
    """Hexadecimal digest."""
    return hashlib.sha256(data).hexdigest()


def unit_scale(unit: str) -> tuple[float, str]:
    """SI size of one action unit: `0.05 m` is (0.05, "m"), `N` is (1.0, "N")."""
    number, _, rest = unit.partition(" ")
    try:
        return float(number), rest or "1"
    except ValueError:
        return 1.0, unit


def component_names(terms: Iterable[Term]) -> tuple[str, ...]:
    """A name for every number of a vector: `grip_pos[0]`, or the bare name of a term of width 1."""
    return tuple(t.name if t.width == 1 else f"{t.name}[{i}]" for t in terms for i in range(t.width))


def to_dict(bundle: BundleManifest) -> dict[str, Any]:
    """The manifest as JSON data with its own checksum, floats in full precision."""
    return sealed(_content(bundle))


def _content(bundle: BundleManifest) -> dict[str, Any]:
    policy, limits = bundle.policy, bundle.limits
    return {
        "format": FORMAT,
        "schema": SCHEMA,
        "task": policy.task,
        "robot": policy.robot,
        "skills": list(policy.skills),
        "goal_entity": policy.goal_entity,
        "frame": policy.frame,
        "quaternion_order": "wxyz",
        "control_hz": policy.control_hz,
        "tolerance": policy.tolerance,
        "inputs": {
            OBSERVATION_INPUT: _input_terms(("robot", policy.robot_terms), ("entity", policy.entity_terms)),
            GOAL_INPUT: _input_terms(("goal", policy.goal_terms)),
        },
        "normalization": "inside the model: inputs are raw values in the units given",
        "outputs": {ACTION_OUTPUT: _action_terms(policy)},
        "safety": {
            "action_low": list(limits.action_low),
            "action_high": list(limits.action_high),
            "observation_low": list(limits.observation_low),
            "observation_high": list(limits.observation_high),
            "max_observation_age_s": limits.max_observation_age_s,
            "hold": {"action": list(limits.hold_action), "behaviour": bundle.hold_behaviour},
        },
        "model": {"file": MODEL_FILE, "opset": bundle.opset, "ir_version": bundle.ir_version},
        "trace": {
            "file": TRACE_FILE,
            "steps": bundle.trace.steps,
            "tolerance": bundle.trace.tolerance,
            "max_abs": bundle.trace.max_abs,
        },
        "files": dict(bundle.files),
        "versions": dict(bundle.versions),
        "provenance": dict(bundle.provenance),
    }


def _input_terms(*parts: tuple[str, Iterable[Term]]) -> list[dict[str, Any]]:
    listed, offset = [], 0
    for part, terms in parts:
        for term in terms:
            listed.append({"part": part, "offset": offset, **_term(term)})
            offset += term.width
    return listed


def _action_terms(policy: PolicyManifest) -> list[dict[str, Any]]:
    listed, offset = [], 0
    for term in policy.action_terms:
        scale, si_unit = unit_scale(term.unit)
        low = policy.action_low[offset : offset + term.width]
        high = policy.action_high[offset : offset + term.width]
        largest = [scale * max(abs(lo), abs(hi)) for lo, hi in zip(low, high, strict=True)]
        listed.append(
            {
                "kind": _KINDS.get(si_unit, "normalized"),
                "offset": offset,
                **_term(term),
                "scale": scale,
                "si_unit": si_unit,
                "low": list(low),
                "high": list(high),
                "max_per_step": largest,
            }
        )
        offset += term.width
    return listed


def _term(term: Term) -> dict[str, Any]:
    return {"name": term.name, "width": term.width, "unit": term.unit, "frame": term.frame}


def read_manifest(folder: Path) -> BundleManifest:
    """The manifest of the bundle in `folder`.

    Raises:
        IntegrityError: There is no bundle, it is of a newer schema, or its manifest is malformed.
    """
    path = folder / MANIFEST_FILE
    if not path.is_file():
        raise IntegrityError(f"'{folder}' is not a bundle (no {MANIFEST_FILE}); make one with `embodied export`")
    if path.stat().st_size > _MAX_MANIFEST_BYTES:
        raise IntegrityError(f"'{path}' is too large to be a bundle's manifest")
    try:
        data = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise IntegrityError(f"'{path}' is not valid JSON ({error}); export the bundle again") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise IntegrityError(f"'{folder}' is not a bundle: its {MANIFEST_FILE} is of another kind")
    schema = data.get("schema")
    if schema != SCHEMA:
        raise IntegrityError(
            f"bundle '{folder}' has schema {schema}, this version reads {SCHEMA}: update the runtime or export again"
        )
    check_seal(data, f"'{path}'", "export the bundle again")
    try:
        bundle = _from_dict(data)
        _check_widths(bundle)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        detail = f"no field {error}" if isinstance(error, KeyError) else str(error)
        raise IntegrityError(f"'{path}' is malformed ({detail}); export the bundle again") from None
    return bundle


def read_file(folder: Path, bundle: BundleManifest, name: str) -> bytes:
    """The content of one file of a bundle, once its hash was found right."""
    path = folder / name
    if name not in bundle.files:
        raise IntegrityError(f"bundle '{folder}' does not list '{name}' among its files; export it again")
    if not path.is_file():
        raise IntegrityError(f"bundle '{folder}' lacks its file '{name}'; copy the whole folder or export it again")
    content = path.read_bytes()
    if sha256(content) != bundle.files[name]:
        raise IntegrityError(f"'{path}' fails its checksum: it was damaged or changed; copy or export the bundle again")
    return content


def _from_dict(data: Mapping[str, Any]) -> BundleManifest:
    actions = data["outputs"][ACTION_OUTPUT]
    inputs = data["inputs"][OBSERVATION_INPUT]
    safety, trace = data["safety"], data["trace"]
    policy = PolicyManifest(
        task=str(data["task"]),
        robot=str(data["robot"]),
        robot_terms=_read_terms(term for term in inputs if term["part"] == "robot"),
        entity_terms=_read_terms(term for term in inputs if term["part"] == "entity"),
        goal_terms=_read_terms(data["inputs"][GOAL_INPUT]),
        action_terms=_read_terms(actions),
        action_low=tuple(float(value) for term in actions for value in term["low"]),
        action_high=tuple(float(value) for term in actions for value in term["high"]),
        goal_entity=str(data["goal_entity"]),
        skills=tuple(str(skill) for skill in data["skills"]),
        frame=str(data["frame"]),
        control_hz=float(data["control_hz"]),
        tolerance=float(data["tolerance"]),
    )
    limits = SafetyLimits(
        action_low=_floats(safety["action_low"]),
        action_high=_floats(safety["action_high"]),
        observation_low=_floats(safety["observation_low"]),
        observation_high=_floats(safety["observation_high"]),
        max_observation_age_s=float(safety["max_observation_age_s"]),
        hold_action=_floats(safety["hold"]["action"]),
    )
    return BundleManifest(
        policy=policy,
        limits=limits,
        hold_behaviour=str(safety["hold"]["behaviour"]),
        trace=TraceInfo(int(trace["steps"]), float(trace["tolerance"]), float(trace["max_abs"])),
        opset=int(data["model"]["opset"]),
        ir_version=int(data["model"]["ir_version"]),
        files={str(name): str(digest) for name, digest in data["files"].items()},
        versions=dict(data["versions"]),
        provenance=dict(data["provenance"]),
    )


def _read_terms(items: Iterable[Mapping[str, Any]]) -> tuple[Term, ...]:
    return tuple(Term(str(t["name"]), int(t["width"]), str(t["unit"]), str(t["frame"])) for t in items)


def _floats(values: Iterable[Any]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _check_widths(bundle: BundleManifest) -> None:
    policy, limits = bundle.policy, bundle.limits
    observations = width_of(policy.robot_terms) + width_of(policy.entity_terms)
    bounds = (
        ("action limits", policy.action_low, policy.action_high, width_of(policy.action_terms)),
        ("safety limits of the action", limits.action_low, limits.action_high, width_of(policy.action_terms)),
        ("safety limits of the observation", limits.observation_low, limits.observation_high, observations),
        ("hold action", limits.hold_action, limits.hold_action, width_of(policy.action_terms)),
    )
    for what, low, high, width in bounds:
        if len(low) != width or len(high) != width:
            raise ValueError(f"{what}: expected {width} numbers, got {len(low)} and {len(high)}")
        if not all(math.isfinite(lo) and math.isfinite(hi) and lo <= hi for lo, hi in zip(low, high, strict=True)):
            raise ValueError(f"{what}: not finite or upside down")
    inside = zip(limits.action_low, limits.hold_action, limits.action_high, strict=True)
    if not all(low <= hold <= high for low, hold, high in inside):
        raise ValueError("hold action: outside the action limits")
    if not (policy.control_hz > 0 and math.isfinite(policy.control_hz) and limits.max_observation_age_s > 0):
        raise ValueError("control_hz and max_observation_age_s must be positive")
    if not 0 < bundle.trace.tolerance < math.inf:
        raise ValueError("the trace's tolerance must be positive and finite")
