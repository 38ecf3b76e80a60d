from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from embodied.errors import ParityError, UserError
from embodied.export.onnx_file import write_onnx
from embodied.export.parity import check_parity, closed_loop_success, replay_file
from embodied.export.recording import record_steps
from embodied.learning.controller import TorchController
from embodied.protocols import Env


@pytest.fixture(scope="module")
def exported(
    tmp_path_factory: pytest.TempPathFactory, trained_like: Callable[[Env, int], TorchController]
) -> SimpleNamespace:
    from robots.fetch import FetchEnv

    env = FetchEnv("fetch_reach")
    controller = trained_like(env, 3)
    recorded = record_steps(env, controller, seed=0)
    path = tmp_path_factory.mktemp("parity") / "policy.onnx"
    model = write_onnx(controller.module, 10, 3, path)
    env.close()
    return SimpleNamespace(path=path, model=model, recorded=recorded, controller=controller)


def perturb(path: Path, out: Path, size: float) -> Path:
    """A copy whose largest weight matrix is off in one entry."""
    model = onnx.load(path)
    tensor = max(model.graph.initializer, key=lambda item: int(np.prod(item.dims)))
    values = numpy_helper.to_array(tensor).copy()
    values.flat[0] += size
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    out.write_bytes(model.SerializeToString())
    return out


def test_file_is_one_plain_onnx_for_old_runtimes(exported: SimpleNamespace) -> None:
    model = onnx.load(exported.path, load_external_data=False)
    assert [entry.version for entry in model.opset_import if entry.domain == ""] == [18]
    assert model.ir_version <= 10
    assert [(end.name, end.type.tensor_type.shape.dim[1].dim_value) for end in model.graph.input] == [
        ("observation", 10),
        ("goal", 3),
    ]
    assert [end.name for end in model.graph.output] == ["action"]
    assert list(exported.path.parent.iterdir()) == [exported.path]
    assert b".py" not in exported.path.read_bytes()  # no stack traces, no paths


def test_any_batch_size(exported: SimpleNamespace) -> None:
    for size in (1, 2, 7):
        part = replace(
            exported.recorded, **{k: getattr(exported.recorded, k)[:size] for k in ("observation", "goal", "action")}
        )
        assert replay_file(exported.path, part, batched=True).shape == (size, 4)


def test_equal_over_all_episodes(exported: SimpleNamespace) -> None:
    report = check_parity(exported.path, exported.recorded, exported.controller.manifest)
    assert report.steps >= 1000
    assert report.episodes >= 20
    assert report.max_abs <= 1e-5
    assert report.max_abs == max(report.per_term.values())
    assert list(report.per_term) == ["grip_delta[0]", "grip_delta[1]", "grip_delta[2]", "fingers"]
    # The answers vary, so that equality says something.
    assert exported.recorded.action.std(axis=0).min() > 0.05


@pytest.mark.parametrize("law", ["tanh", "kumaraswamy"])
def test_other_laws_are_equal_too(
    law: str, drift_env: Env, trained_like: Callable[..., TorchController], tmp_path: Path
) -> None:
    controller = trained_like(drift_env, 2, law)
    recorded = record_steps(drift_env, controller, seed=0)
    write_onnx(controller.module, 6, 3, tmp_path / "policy.onnx")
    report = check_parity(tmp_path / "policy.onnx", recorded, controller.manifest)
    assert report.steps >= 1000
    assert recorded.action.std(axis=0).min() > 0.05
    # A head whose numbers are swapped is another law: what is compared is the law, not the limits.
    width = len(controller.manifest.action_low)
    order = [*range(width, 2 * width), *range(width)]
    with torch.no_grad():
        controller.module.head.weight.copy_(controller.module.head.weight[order])
    other = record_steps(drift_env, controller, seed=0)
    with pytest.raises(ParityError):
        check_parity(tmp_path / "policy.onnx", other, controller.manifest)


@pytest.mark.parametrize("episode", [0, 12])
def test_a_mismatch_in_any_episode_is_named(exported: SimpleNamespace, episode: int) -> None:
    action = exported.recorded.action.copy()
    row = episode * 50 + 17
    action[row, 1] += 2e-5
    with pytest.raises(ParityError, match=rf"grip_delta\[1\] by \S+e-05 at step 17 of episode {episode} ") as caught:
        check_parity(exported.path, replace(exported.recorded, action=action), exported.controller.manifest)
    assert "fingers" not in str(caught.value)
    assert caught.value.reason == "parity"


def test_a_perturbed_weight_is_refused(exported: SimpleNamespace, tmp_path: Path) -> None:
    broken = perturb(exported.path, tmp_path / "broken.onnx", 1e-2)
    with pytest.raises(ParityError, match="not equal to its controller within 1e-05"):
        check_parity(broken, exported.recorded, exported.controller.manifest)


def test_not_a_number_is_refused(exported: SimpleNamespace, tmp_path: Path) -> None:
    broken = perturb(exported.path, tmp_path / "broken.onnx", np.nan)
    with pytest.raises(ParityError, match="by nan"):
        check_parity(broken, exported.recorded, exported.controller.manifest)


def test_too_few_steps_prove_nothing(exported: SimpleNamespace) -> None:
    short = replace(exported.recorded, action=exported.recorded.action[:999])
    with pytest.raises(UserError, match="at least 1000 recorded steps, got 999"):
        check_parity(exported.path, short, exported.controller.manifest)


def test_closed_loop_asks_both_on_the_same_seeds() -> None:
    asked = []

    def evaluate(env: str, controller: float, episodes: int, seed: int) -> SimpleNamespace:
        asked.append((env, episodes, seed))
        return SimpleNamespace(success_rate=controller)

    result = closed_loop_success("env", 0.5, 0.25, evaluate, 8, 100)
    assert (result.policy, result.file) == (0.5, 0.25)
    assert asked == [("env", 8, 100)] * 2
