from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from embodied import wire
from embodied.deploy.drivers import sim
from embodied.deploy.drivers.sim import SimDriver
from embodied.deploy.policy import OnnxController, load_bundle
from embodied.deploy.runtime import run
from embodied.errors import LayoutError, UserError
from robots.registry import make_env
from robots.sim_server import serve

SICK_SERVER = """
import os, sys
import robots.sim_server as server
from robots.registry import make_env
env = make_env("fetch_reach")
step, count = env.step, [0]
def sick(action):
    count[0] += 1
    if count[0] > 60:
        {illness}
    return step(action)
env.step = sick
server._make_env = lambda task: env
sys.exit(server.main(["--task", "fetch_reach"]))
"""


CLAIMING_SERVER = """
import dataclasses, sys
import robots.sim_server as server
from robots.registry import make_env
env = make_env("fetch_reach")
env.spec = dataclasses.replace(env.spec, success_rule="{rule}")
step, count = env.step, [0]
def claiming(action):
    count[0] += 1
    return dataclasses.replace(step(action), success=count[0] == 3, truncated=count[0] == 5)
env.step = claiming
server._make_env = lambda task: env
sys.exit(server.main(["--task", "fetch_reach"]))
"""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def expected_outcomes(bundle: Path, seed: int, episodes: int) -> list[bool]:
    """The same controller in the same environment in this process."""
    env, controller, outcomes = make_env("fetch_reach"), OnnxController(bundle), []
    for episode in range(episodes):
        observation, done = env.reset(seed + episode), False
        while not done:
            step = env.step(controller.act(observation, env.goal))
            observation, done = step.observation, step.truncated or step.terminated
        outcomes.append(step.success)
    env.close()
    return outcomes


def test_two_processes_end_to_end(reach_bundle: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    words = [f"bundle={reach_bundle}", "driver=sim", "episodes=3", "seed=2000000", f"out={out}"]
    ended = subprocess.run([sys.executable, "-m", "embodied.deploy", *words], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    report = json.loads(out.read_text())
    assert (report["ok"], report["episodes"], report["steps"], report["held"]) == (True, 3, 150, 0)
    assert report["success_rate"] == np.mean(expected_outcomes(reach_bundle, 2_000_000, 3)) == 1.0
    assert not {"torch", "mujoco", "hydra", "gymnasium"} & set(report["loaded_modules"])


def test_the_states_are_those_of_the_environment(reach_bundle: Path) -> None:
    env, driver = make_env("fetch_reach"), SimDriver(load_bundle(reach_bundle).manifest.policy, seed=11)
    try:
        observation, reading = env.reset(11), driver.read()
        for index in range(50):
            assert np.array_equal(reading.observation.state, observation.state)
            assert np.array_equal(reading.goal.value, env.goal.value)
            assert (reading.success, reading.age_s) == (None, 0.0)
            action = np.array([2.0, -0.5, 0.1, 0.0], np.float32) * np.float32(np.cos(index))
            step, sent = env.step(action), driver.write(action)
            assert np.array_equal(sent, step.action)  # what was really done, after the limits
            observation, reading = step.observation, driver.read()
        assert reading.success is step.success
        assert np.array_equal(driver.read().observation.state, env.reset(12).state)
    finally:
        pid = driver._process.pid
        driver.close()
        driver.close()
        env.close()
    assert not alive(pid)


@pytest.mark.parametrize(
    ("illness", "words"),
    [
        ("os._exit(9)", "closed the connection"),
        ("raise ValueError('the model\\n  blew up')", "it reports: the model blew up"),
    ],
)
def test_a_simulator_that_dies_in_an_episode(reach_bundle: Path, illness: str, words: str) -> None:
    bundle = load_bundle(reach_bundle)
    command = (sys.executable, "-c", SICK_SERVER.format(illness=illness))
    driver = SimDriver(bundle.manifest.policy, command=command)
    report = run(bundle, driver, episodes=5)
    assert words in report.failure
    assert "in episode 1" in report.failure
    assert "\n" not in report.failure
    assert (report.episodes, report.held, report.interventions["driver_lost"]) == (1, 1, 1)
    assert not report.ok
    assert not alive(driver._process.pid)


@pytest.mark.parametrize(("rule", "success"), [("last", False), ("any", True)])
def test_success_is_judged_by_the_tasks_rule(reach_bundle: Path, rule: str, success: bool) -> None:
    policy = load_bundle(reach_bundle).manifest.policy
    driver = SimDriver(policy, command=(sys.executable, "-c", CLAIMING_SERVER.format(rule=rule)))
    try:
        outcomes = []
        for _ in range(5):
            outcomes.append(driver.read().success)
            driver.write(np.zeros(4, np.float32))
        assert outcomes == [None] * 5
        assert driver.read().success is success
    finally:
        driver.close()


def test_the_simulator_ends_when_its_client_is_killed(reach_bundle: Path) -> None:
    code = (
        "import sys, time; from embodied.deploy.drivers.sim import SimDriver;"
        "from embodied.deploy.policy import load_bundle;"
        "driver = SimDriver(load_bundle(sys.argv[1]).manifest.policy);"
        "print(driver._process.pid, flush=True); time.sleep(60)"
    )
    client = subprocess.Popen([sys.executable, "-c", code, str(reach_bundle)], stdout=subprocess.PIPE, text=True)
    server = int(client.stdout.readline())
    assert running(server)
    client.kill()
    client.wait()
    client.stdout.close()
    deadline = time.monotonic() + 20.0
    while running(server) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running(server)


def running(pid: int) -> bool:
    """Neither gone nor waiting to be reaped by a parent that this test does not have."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_start_up_failures_are_one_line(reach_bundle: Path) -> None:
    policy = load_bundle(reach_bundle).manifest.policy
    for command, words in (
        (sim.server_command("fetch_reech"), "did not start: unknown task 'fetch_reech' \\(did you mean 'fetch_reach'"),
        ((sys.executable, "-c", "raise SystemExit(4)"), "did not start: it ended with status 4"),
        ((sys.executable, "-c", "print('welcome')"), "did not start"),
    ):
        with pytest.raises(UserError, match=words) as caught:
            SimDriver(policy, command=command)
        assert "\n" not in str(caught.value)


def test_a_simulator_that_never_says_its_port_is_ended(reach_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sim, "_START_TIMEOUT_S", 0.3)
    monkeypatch.setattr(sim, "_END_TIMEOUT_S", 0.1)
    with pytest.raises(UserError, match="no port within"):
        SimDriver(
            load_bundle(reach_bundle).manifest.policy, command=(sys.executable, "-c", "import time; time.sleep(60)")
        )


def test_a_task_with_other_actions_is_refused(reach_bundle: Path) -> None:
    policy = load_bundle(reach_bundle).manifest.policy
    with pytest.raises(LayoutError, match="action terms: the controller was made for .*, task 'point_umaze' has"):
        SimDriver(policy, command=sim.server_command("point_umaze"))


def test_realtime_keeps_the_control_rate(reach_bundle: Path) -> None:
    bundle = load_bundle(reach_bundle)
    driver = SimDriver(bundle.manifest.policy, realtime=True)
    start = time.monotonic()
    report = run(bundle, driver, seconds=0.6)
    # 15 commands at 25 Hz: each waits for its deadline. A slow machine may only be later.
    assert report.steps == 15
    assert time.monotonic() - start >= 0.6
    assert report.periods_us["mean"] >= 38_000


def test_the_server_answers_nonsense_with_a_line_and_goes_with_its_client() -> None:
    env = make_env("fetch_reach")
    failures = []

    def host(connection: socket.socket) -> None:
        try:
            serve(env, connection)
        except wire.WireError as error:
            failures.append(str(error))

    for kind, payload, words in (
        (wire.STEP, bytes(16), "an episode starts with a reset"),
        (wire.RESET, bytes(3), "one seed of 8 bytes"),
        (99, b"", "type 99"),
        (None, b"", ""),
    ):
        ours, theirs = _pair()
        thread = threading.Thread(target=host, args=(theirs,))
        thread.start()
        assert wire.receive(ours)[0] == wire.LAYOUT
        if kind is not None:
            wire.send(ours, kind, payload)
            answer, text = wire.receive(ours)
            assert answer == wire.ERROR
            assert words in text.decode()
        ours.close()
        thread.join(10.0)
        assert not thread.is_alive()
        theirs.close()
    assert len(failures) == 3
    env.close()


def _pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname(), timeout=10.0)
        return client, listener.accept()[0]
