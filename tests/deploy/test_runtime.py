from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embodied.deploy.drivers.base import DriverLost, Reading
from embodied.deploy.drivers.trace import TraceDriver
from embodied.deploy.policy import GoldenTrace, OnnxController, load_bundle
from embodied.deploy.runtime import deploy, run
from embodied.errors import LayoutError, UserError
from embodied.spec import Layout
from embodied.types import FloatArray, Goal, Observation


class ListedDriver:
    """Hands out prepared readings (an exception is raised) and keeps what it is sent."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.items, self.sent, self.closed = list(items), [], 0

    def read(self) -> Reading | None:
        item = self.items.pop(0) if self.items else None
        if isinstance(item, BaseException):
            raise item
        return item

    def write(self, action: FloatArray) -> FloatArray:
        self.sent.append(action)
        return action

    def close(self) -> dict[str, int]:
        self.closed += 1
        return {"closed": self.closed}


@pytest.fixture
def reading(reach_bundle: Path) -> Callable[..., Reading]:
    """A sane reading, changed as asked."""
    bundle = load_bundle(reach_bundle)
    policy, trace = bundle.manifest.policy, bundle.trace()
    layout = Layout(policy.robot_terms, (), policy.goal_terms, ("gripper",))

    def make(
        state: Any = None, goal: Any = None, age_s: float = 0.0, success: bool | None = None, layout: Layout = layout
    ) -> Reading:
        state = trace.observation[0] if state is None else np.asarray(state, np.float32)
        observation = Observation(state, np.zeros((1, 0), np.float32), np.zeros((1, 3), np.float32), layout)
        return Reading(observation, Goal("gripper", trace.goal[0], np.ones(3, bool)), age_s, success)

    return make


def test_the_golden_trace_is_reproduced(reach_bundle: Path) -> None:
    report = deploy(reach_bundle, driver="trace")
    steps = load_bundle(reach_bundle).manifest.trace.steps
    assert report.details["trace"]["ok"]
    assert report.details["trace"]["max_abs"] <= 1e-5
    assert (report.steps, report.details["trace"]["steps"], report.held) == (steps, steps, 0)
    assert sum(report.interventions.values()) == 0
    assert set(report.periods_us) == {"p50", "p95", "p99", "max", "mean"}
    # This process has torch loaded, and the report says so.
    assert report.forbidden_modules[0] == "torch"
    assert not report.ok


def test_a_trace_that_differs_is_not_ok(reach_bundle: Path) -> None:
    bundle = load_bundle(reach_bundle)
    driver = TraceDriver(bundle)
    action = bundle.trace().action.copy()
    action[500, 2] += 1e-4
    driver._trace = GoldenTrace(driver._trace.observation, driver._trace.goal, action)
    trace = run(bundle, driver).details["trace"]
    assert not trace["ok"]
    assert trace["max_abs"] == pytest.approx(1e-4, rel=0.1)
    assert max(trace["per_term"], key=trace["per_term"].get) == "grip_delta[2]"


def test_every_unfit_reading_is_held_and_counted(reach_bundle: Path, reading: Callable[..., Reading]) -> None:
    nan = np.full(10, np.nan)
    far = np.full(10, 1e6)
    driver = ListedDriver([reading(), reading(nan), reading(far), reading(age_s=1.0), reading()])
    report = run(reach_bundle, driver)
    assert (report.steps, report.held) == (5, 3)
    acted = {rule: count for rule, count in report.interventions.items() if count}
    assert acted == {"nonfinite_observation": 1, "implausible_observation": 1, "stale_observation": 1}
    assert [bool(np.any(action)) for action in driver.sent] == [True, False, False, False, True]
    assert "implausible_observation: grip_pos[0] = 1e+06" in report.notes[1]


def test_episodes_are_counted_and_not_commanded(reach_bundle: Path, reading: Callable[..., Reading]) -> None:
    ends = [reading(), reading(success=True), reading(), reading(), reading(success=False)]
    driver = ListedDriver(ends * 3)
    report = run(reach_bundle, driver, episodes=3)
    assert (report.episodes, report.successes, report.success_rate) == (3, 2, pytest.approx(2 / 3))
    assert (report.steps, len(driver.sent)) == (4, 4)


def test_seconds_are_control_time(reach_bundle: Path, reading: Callable[..., Reading]) -> None:
    report = run(reach_bundle, ListedDriver([reading()] * 100), seconds=0.4)
    assert report.steps == 10  # 25 commands a second
    assert report.success_rate is None


def test_a_lost_driver_ends_in_one_line(reach_bundle: Path, reading: Callable[..., Reading]) -> None:
    driver = ListedDriver([reading(), DriverLost("the robot is gone")])
    report = run(reach_bundle, driver)
    assert report.failure == "the robot is gone"
    assert (report.held, report.interventions["driver_lost"], driver.closed) == (1, 1, 1)
    assert not replace(report, loaded_modules=()).ok


def test_an_interrupt_holds_and_still_reports(reach_bundle: Path, reading: Callable[..., Reading]) -> None:
    driver = ListedDriver([reading(), KeyboardInterrupt()])
    report = run(reach_bundle, driver)
    assert report.interrupted
    assert report.failure == "interrupted; the robot was told to hold"
    assert driver.sent[-1].tolist() == [0.0, 0.0, 0.0, 0.0]
    assert (report.held, report.interventions["interrupted"], driver.closed) == (1, 1, 1)


def test_the_driver_is_closed_whatever_happens(
    reach_bundle: Path, reading: Callable[..., Reading], tmp_path: Path
) -> None:
    foreign = Layout((), (), (), ("gripper",))
    driver = ListedDriver([reading(layout=foreign)])
    with pytest.raises(LayoutError, match="needs the robot term 'grip_pos'"):
        run(reach_bundle, driver)
    assert driver.closed == 1
    driver = ListedDriver([])
    with pytest.raises(UserError):
        run(tmp_path, driver)
    assert driver.closed == 1


@pytest.mark.parametrize("name", ["torch", "mujoco", "hydra"])
def test_heavy_modules_make_a_run_not_ok(reach_bundle: Path, name: str) -> None:
    report = run(reach_bundle, TraceDriver(load_bundle(reach_bundle)))
    clean = replace(report, loaded_modules=("numpy", "onnxruntime"))
    assert clean.ok
    assert clean.to_dict()["ok"]
    assert not replace(report, loaded_modules=("numpy", name)).ok


def test_an_unknown_driver(reach_bundle: Path) -> None:
    with pytest.raises(UserError, match="unknown driver 'simm' \\(did you mean 'sim'\\?\\); valid: sim, trace"):
        deploy(reach_bundle, driver="simm")


def test_the_runtime_imports_nothing_heavy() -> None:
    code = (
        "import sys, embodied.deploy.runtime, embodied.deploy.drivers.sim, embodied.deploy.drivers.trace;"
        "print(sorted({n.partition('.')[0] for n in sys.modules} & "
        "{'torch','mujoco','hydra','omegaconf','jsonschema','onnx','gymnasium','matplotlib'}))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


def runtime_process(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "embodied.deploy", *words], capture_output=True, text=True)


def test_the_process_replays_a_trace_and_reports(reach_bundle: Path, tmp_path: Path) -> None:
    out = tmp_path / "a b (c)" / "report.json"
    ended = runtime_process(f"bundle={reach_bundle}", "driver=trace", f"out={out}")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "golden trace: largest difference" in ended.stdout
    report = json.loads(out.read_text())
    assert report["ok"]
    assert report["loaded_modules"] == sorted(report["loaded_modules"])
    assert {"numpy", "onnxruntime", "embodied"} <= set(report["loaded_modules"])
    assert not {"torch", "mujoco", "hydra", "gymnasium", "onnx"} & set(report["loaded_modules"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "bundle=<folder> is missing"),
        (["bundle="], "bundle='' is not valid: it needs a path"),
        (["bundle={here}"], "is not a bundle"),
        (["bundel=x"], "unknown key 'bundel' (did you mean 'bundle'?)"),
        (["bundle={bundle}", "driver=fci"], "unknown driver 'fci'; valid: sim, trace"),
        (["bundle={bundle}", "episodes=0"], "it must be positive"),
        (["bundle={bundle}", "seconds=nan"], "it must be positive"),
        (["bundle={bundle}", "seed=-1"], "whole number from 0"),
        (["bundle={bundle}", "out={bundle}"], "choose another path"),
    ],
)
def test_mistakes_are_one_line(reach_bundle: Path, tmp_path: Path, words: list[str], message: str) -> None:
    ended = runtime_process(*[word.format(bundle=reach_bundle, here=tmp_path) for word in words])
    assert (ended.returncode, ended.stdout) == (2, "")
    assert message in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_controller_that_is_open_is_taken_as_it_is(reach_bundle: Path, reading: Callable[..., Reading]) -> None:
    controller = OnnxController(reach_bundle)
    assert run(controller, ListedDriver([reading()])).steps == 1
