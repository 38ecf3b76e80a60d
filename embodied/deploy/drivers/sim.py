"""A simulator in another process as a robot: starts it, talks to it over the loopback interface, and reaps it.

The world waits for each command (lockstep); with `realtime` the commands are paced at the control rate by absolute
deadlines and the observation's age is measured on the wall clock.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import IO, Any

from embodied import wire
from embodied.deploy.drivers.base import DriverLost, Reading
from embodied.errors import LayoutError, UserError
from embodied.spec import EnvSpec
from embodied.types import FloatArray, PolicyManifest

_START_TIMEOUT_S = 120.0
_ANSWER_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 5.0


def server_command(task: str) -> tuple[str, ...]:
    """How the simulator's process is started."""
    return (sys.executable, "-m", "robots.sim_server", "--task", task, "--port", "0")


class SimDriver:
    """Runs episodes i = 0, 1, ... of a task, reset with `seed` + i, until it is closed.

    Args:
        manifest: The controller's; action terms, limits and rate must be the task's own.
        seed: Seed of the first episode.
        realtime: Pace the commands at the control rate instead of letting the world wait.
        command: How to start the simulator; by default the manifest's task in `robots.sim_server`.

    Raises:
        UserError: The simulator cannot be started (its own line is passed on).
        LayoutError: The task's actions are not the controller's.
    """

    def __init__(
        self,
        manifest: PolicyManifest,
        seed: int = 2_000_000,
        realtime: bool = False,
        command: Sequence[str] | None = None,
    ) -> None:
        self._seed, self._realtime = seed, realtime
        self._episode, self._running, self._any_success = 0, False, False
        self._deadline: float | None = None
        self._connection: socket.socket | None = None
        self.spec: EnvSpec | None = None
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the driver)
        self._process = subprocess.Popen(
            tuple(command or server_command(manifest.task)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        try:
            self._connection = self._connect()
            self.spec = self._receive_spec()
            _check_actions(manifest, self.spec)
        except BaseException:
            self.close()
            raise

    def read(self) -> Reading:
        """The state after the last command; after an episode's end, the first state of the next."""
        if not self._running:
            self._state = self._ask(wire.RESET, wire.encode_seed(self._seed + self._episode))
            self._running, self._any_success = True, False
            self._received = self._deadline = time.monotonic()
        age = time.monotonic() - self._received if self._realtime else 0.0
        return Reading(self._state.observation, self._state.goal, age, self._outcome())

    def write(self, action: FloatArray) -> FloatArray:
        """One control step; returns the action as the simulator executed it."""
        if self._realtime and self._deadline is not None:
            self._deadline = self._next_deadline(self._deadline)
        self._state = self._ask(wire.STEP, wire.encode_action(action))
        self._received = time.monotonic()
        self._any_success |= self._state.success
        return self._state.action

    def close(self) -> dict[str, Any]:
        """Ends the simulator; `sim_task`: what it ran."""
        if self._connection is not None:
            with contextlib.suppress(wire.WireError):
                wire.send(self._connection, wire.CLOSE)
            self._connection.close()
            self._connection = None
        self._reap()
        self._errors.close()
        return {} if self.spec is None else {"sim_task": self.spec.task}

    def _next_deadline(self, last: float) -> float:
        """Sleeps until one period after the last deadline; one that was missed is not made up for by a burst."""
        deadline = max(last + 1.0 / self.spec.control_hz, time.monotonic())
        time.sleep(max(0.0, deadline - time.monotonic()))
        return deadline

    def _outcome(self) -> bool | None:
        if not (self._state.terminated or self._state.truncated):
            return None
        self._episode += 1
        self._running = False
        return self._any_success if self.spec.success_rule == "any" else self._state.success

    def _ask(self, kind: int, payload: bytes) -> wire.SimState:
        if self._connection is None:
            raise DriverLost("the simulator was closed")
        try:
            wire.send(self._connection, kind, payload)
            answer, content = wire.receive(self._connection)
            if answer == wire.ERROR:
                raise wire.WireError(f"it reports: {content.decode(errors='replace')}")
            if answer != wire.STATE:
                raise wire.WireError(f"it answered with a message of type {answer}")
            return wire.decode_state(content, self.spec)
        except wire.WireError as error:
            raise DriverLost(f"the simulator is lost in episode {self._episode}: {error}") from None

    def _connect(self) -> socket.socket:
        port = self._read_port()
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_TIMEOUT_S)
        except OSError as error:
            raise UserError(f"the simulator's port {port} cannot be reached ({error})") from None
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _read_port(self) -> int:
        stdout = self._process.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            ready = selector.select(_START_TIMEOUT_S)
        line = stdout.readline(32).strip() if ready else b""
        if not line.isdigit():
            raise UserError(f"the simulator did not start: {self._last_words(waited=not ready)}")
        return int(line)

    def _last_words(self, waited: bool) -> str:
        if waited:
            return f"no port within {_START_TIMEOUT_S:.0f} s"
        self._reap()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else f"it ended with status {self._process.returncode}"

    def _receive_spec(self) -> EnvSpec:
        try:
            kind, payload = wire.receive(self._connection)
            if kind != wire.LAYOUT:
                raise wire.WireError(f"it began with a message of type {kind}")
            return wire.decode_spec(payload)
        except wire.WireError as error:
            raise UserError(f"the simulator does not say what it runs: {error}") from None

    def _reap(self) -> None:
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def _check_actions(manifest: PolicyManifest, spec: EnvSpec) -> None:
    pairs = (
        ("action terms", manifest.action_terms, spec.actions),
        ("lower action limits", manifest.action_low, spec.action_low),
        ("upper action limits", manifest.action_high, spec.action_high),
        ("control rate", manifest.control_hz, spec.control_hz),
        ("frame", manifest.frame, spec.frame),
    )
    for what, wanted, offered in pairs:
        if wanted != offered:
            raise LayoutError(f"{what}: the controller was made for {wanted}, task '{spec.task}' has {offered}")
