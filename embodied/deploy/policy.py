"""A bundle's file as a controller: numpy and onnxruntime, one thread, no spinning."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

from embodied.binding import InputBinder
from embodied.bundle_format import (
    ACTION_OUTPUT,
    GOAL_INPUT,
    MODEL_FILE,
    OBSERVATION_INPUT,
    TRACE_FILE,
    BundleManifest,
    read_file,
    read_manifest,
)
from embodied.errors import IntegrityError
from embodied.types import FloatArray, Goal, Observation

_WARM_UP_CALLS = 20


@dataclass(frozen=True)
class GoldenTrace:
    """Recorded inputs and the answers of the controller that the bundle was made from."""

    observation: FloatArray
    """(N, S+F)"""
    goal: FloatArray
    """(N, G)"""
    action: FloatArray
    """(N, A)"""


@dataclass(frozen=True)
class Bundle:
    """A bundle whose manifest was read; its files are checked against their hashes when they are."""

    folder: Path
    manifest: BundleManifest

    def model(self) -> bytes:
        """The ONNX file."""
        return read_file(self.folder, self.manifest, MODEL_FILE)

    def trace(self) -> GoldenTrace:
        """The golden trace."""
        content = read_file(self.folder, self.manifest, TRACE_FILE)
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                trace = GoldenTrace(*(arrays[name].astype(np.float32) for name in ("observation", "goal", "action")))
        except (KeyError, ValueError, OSError) as error:
            raise IntegrityError(f"the golden trace of bundle '{self.folder}' cannot be read: {error}") from None
        binder, width = InputBinder(self.manifest.policy), self.manifest.policy.action_width
        steps = self.manifest.trace.steps
        expected = ((steps, binder.observation_width), (steps, binder.goal_width), (steps, width))
        if (trace.observation.shape, trace.goal.shape, trace.action.shape) != expected:
            raise IntegrityError(f"the golden trace of bundle '{self.folder}' does not have the manifest's shapes")
        return trace


def load_bundle(folder: Path | str) -> Bundle:
    """The bundle in `folder`, every file of it verified.

    Raises:
        IntegrityError: Not a bundle, of a newer schema, incomplete, or changed since it was exported.
    """
    bundle = Bundle(Path(folder), read_manifest(Path(folder)))
    for name in {MODEL_FILE, TRACE_FILE, *bundle.manifest.files}:
        if name != Path(name).name:
            raise IntegrityError(f"bundle '{folder}' lists '{name}', which is not a plain file name")
        read_file(bundle.folder, bundle.manifest, name)
    return bundle


class OnnxController:
    """The exported policy; answers as the torch controller that it was made from, to within the bundle's tolerance.

    Implements `embodied.protocols.Controller`. Inputs are bound by name with the code that training uses.
    """

    def __init__(self, bundle: Bundle | Path | str) -> None:
        self.bundle = bundle if isinstance(bundle, Bundle) else load_bundle(bundle)
        self.manifest = self.bundle.manifest.policy
        self.bind = InputBinder(self.manifest)
        """(observation, goal) -> the vectors (S+F,) and (G,) that `answer` takes."""
        self._session = _open_session(self.bundle)
        self._check_signature()
        for _ in range(_WARM_UP_CALLS):
            self.answer(np.zeros(self.bind.observation_width, np.float32), np.zeros(self.bind.goal_width, np.float32))

    def act(self, observation: Observation, goal: Goal) -> FloatArray:
        """The action (A,), in action units, before any safety limit."""
        return self.answer(*self.bind(observation, goal))

    def answer(self, observation: FloatArray, goal: FloatArray) -> FloatArray:
        """The file's answer (A,) to input vectors (S+F,) and (G,)."""
        inputs = {OBSERVATION_INPUT: observation[None], GOAL_INPUT: goal[None]}
        return self._session.run([ACTION_OUTPUT], inputs)[0][0]

    def _check_signature(self) -> None:
        expected = {
            OBSERVATION_INPUT: self.bind.observation_width,
            GOAL_INPUT: self.bind.goal_width,
            ACTION_OUTPUT: self.manifest.action_width,
        }
        ends = (*self._session.get_inputs(), *self._session.get_outputs())
        found = {end.name: end.shape[-1] if len(end.shape) == 2 else None for end in ends}
        if found != expected:
            raise IntegrityError(
                f"the model of bundle '{self.bundle.folder}' has widths {found}, its manifest says {expected}"
            )


def _open_session(bundle: Bundle) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(bundle.model(), options, providers=["CPUExecutionProvider"])
    except IntegrityError:
        raise
    except Exception as error:  # onnxruntime raises a family of its own classes for every kind of unusable file
        line = " ".join(str(error).split())
        raise IntegrityError(f"onnxruntime cannot load the model of bundle '{bundle.folder}': {line}") from None
