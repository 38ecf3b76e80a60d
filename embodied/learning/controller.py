"""A trained policy as a controller: acting, saving, loading, and the controllers that are shipped."""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from embodied.binding import InputBinder
from embodied.errors import IntegrityError, UserError
from embodied.learning.files import read_index, read_tensors, standing, write_folder
from embodied.learning.networks import CriticEnsemble, PolicyModule, PolicyShape
from embodied.learning.shipped import INDEX, PREFIX, check_reference, zoo_folder, zoo_names
from embodied.spec import EnvSpec, Term
from embodied.types import FloatArray, Goal, Observation, PolicyManifest

__all__ = [
    "TorchController", "load_controller", "load_zoo", "manifest_of", "open_controller", "save_controller", "zoo_names",
]  # fmt: skip

KIND = "embodied controller"
SCHEMA = 1
POLICY_FILE = "policy.safetensors"
CRITIC_FILE = "critic.safetensors"


class TorchController:
    """A policy's deterministic action for any observation whose layout offers the terms it was trained on."""

    def __init__(
        self,
        module: PolicyModule,
        manifest: PolicyManifest,
        extra: dict[str, Any] | None = None,
        critic: dict[str, torch.Tensor] | None = None,
    ) -> None:
        """Args:
        module: The policy, frozen from here on.
        manifest: What it was trained on.
        extra: Where it comes from: command, seed, success; as saved with it.
        critic: State of the critics that were saved with it, for `init_from`.
        """
        self.module = module.eval().requires_grad_(False)
        self.manifest = manifest
        self.extra = extra or {}
        self.critic = critic
        self._bind = InputBinder(manifest)

    def act(self, observation: Observation, goal: Goal) -> FloatArray:
        """The deterministic action, shape (A,), in action units.

        Raises:
            UserError: It is not finite: the controller is one of a training that diverged.
        """
        inputs, target = self._bind(observation, goal)
        action = self.act_vectors(inputs[None], target[None])[0]
        if not math.isfinite(sum(action.tolist())):
            raise UserError(
                f"the action of the controller for {self.manifest.task} is not finite: its training diverged; train "
                "another with lower sac.actor_lr, sac.critic_lr, sac.temperature_lr"
            )
        return action

    @property
    def weights_sha256(self) -> str:
        """sha256 of the policy's parameters and statistics: another controller has another."""
        digest = hashlib.sha256()
        for name, value in sorted(self.module.state_dict().items()):
            digest.update(name.encode() + value.numpy().tobytes())
        return digest.hexdigest()

    @torch.inference_mode()
    def act_vectors(self, observation: FloatArray, goal: FloatArray) -> FloatArray:
        """Input vectors (B, S+F) and (B, G), zeros where masked out, to actions (B, A)."""
        return self.module(torch.from_numpy(observation), torch.from_numpy(goal)).numpy()


def manifest_of(spec: EnvSpec) -> PolicyManifest:
    """What a controller trained on this task has to be matched with."""
    return PolicyManifest(
        task=spec.task,
        robot=spec.robot,
        robot_terms=spec.layout.robot,
        entity_terms=spec.layout.entity,
        goal_terms=spec.layout.goal,
        action_terms=spec.actions,
        action_low=spec.action_low,
        action_high=spec.action_high,
        goal_entity=spec.goal_entity,
        skills=spec.skills,
        frame=spec.frame,
        control_hz=spec.control_hz,
        tolerance=spec.tolerance,
    )


def save_controller(
    controller: TorchController, folder: Path, extra: dict[str, Any], critic: CriticEnsemble | None = None
) -> None:
    """Write weights and manifest, at once or not at all.

    Args:
        controller: What to save.
        folder: Made, or replaced.
        extra: JSON values that tell where it comes from.
        critic: Saved beside the policy where given.
    """
    index = {
        "kind": KIND,
        "schema": SCHEMA,
        "policy": asdict(controller.manifest),
        "network": asdict(controller.module.shape),
        "extra": extra,
    }
    tensors = {POLICY_FILE: {key: value.numpy() for key, value in controller.module.state_dict().items()}}
    if critic is not None:
        tensors[CRITIC_FILE] = {key: value.numpy() for key, value in critic.state_dict().items()}
    write_folder(folder, INDEX, index, tensors)


def load_controller(folder: Path | str) -> TorchController:
    """Read what `save_controller` wrote; a run folder stands for the `controller` folder inside.

    Raises:
        IntegrityError: No controller, damaged, or of another schema.
    """
    folder = Path(folder)
    inside = standing(folder / "controller")
    folder = inside if not (folder / INDEX).is_file() and inside.is_dir() else folder
    index = read_index(folder, INDEX, KIND, SCHEMA)
    try:
        manifest = _manifest(index["policy"])
        module = PolicyModule(_shape(index["network"]))
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError, UserError) as error:
        raise IntegrityError(f"{folder / INDEX} is damaged: {_first_line(error)}") from error
    weights = _tensors(read_tensors(folder, index, POLICY_FILE))
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        raise IntegrityError(f"{folder / POLICY_FILE} does not fit the network that {INDEX} describes") from error
    critic = _tensors(read_tensors(folder, index, CRITIC_FILE)) if CRITIC_FILE in index["files"] else None
    return TorchController(module, manifest, index.get("extra"), critic)


def load_zoo(name: str) -> TorchController:
    """A shipped controller by name."""
    return open_controller(PREFIX + name)


def open_controller(reference: str | Path) -> TorchController:
    """`zoo:<name>`, a run folder or a controller folder.

    Raises:
        UserError: There is none.
        IntegrityError: It is damaged.
    """
    check_reference(reference)
    text = str(reference)
    return load_controller(zoo_folder() / text.removeprefix(PREFIX) if text.startswith(PREFIX) else Path(text))


def _manifest(data: dict[str, Any]) -> PolicyManifest:
    values = dict(data)
    for name in ("robot_terms", "entity_terms", "goal_terms", "action_terms"):
        values[name] = tuple(Term(**term) for term in values[name])
    for name in ("action_low", "action_high", "skills"):
        values[name] = tuple(values[name])
    return PolicyManifest(**values)


def _shape(data: dict[str, Any]) -> PolicyShape:
    return PolicyShape(**{key: _frozen(value) for key, value in data.items()})


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _tensors(arrays: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {key: torch.from_numpy(np.array(value)) for key, value in arrays.items()}


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
