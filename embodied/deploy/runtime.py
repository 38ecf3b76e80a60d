"""The control loop on the robot's computer: read, decide within the safety limits, write. numpy and onnxruntime only.

`deploy(folder, driver="sim")` is the short way; `run(bundle, driver)` takes any driver.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from embodied.bundle_format import component_names
from embodied.deploy.drivers import DRIVERS
from embodied.deploy.drivers.base import Driver, DriverLost
from embodied.deploy.policy import Bundle, OnnxController, load_bundle
from embodied.deploy.safety import SafetyFilter
from embodied.errors import unknown_name

DEFAULT_SEED = 2_000_000
"""Seed of the first episode, as in evaluation."""
_DEFAULT_EPISODES = 10

FORBIDDEN_MODULES = ("torch", "mujoco", "hydra")
"""What must never be loaded beside a robot's control loop."""


@dataclass(frozen=True)
class DeployReport:
    """What happened while a bundle drove something."""

    driver: str
    task: str
    steps: int
    """Commands decided."""
    episodes: int
    successes: int
    interventions: Mapping[str, int]
    """Steps at which each safety rule acted, zeros included."""
    notes: Sequence[str]
    """The first few interventions in words."""
    held: int
    """Steps at which the robot was told to hold."""
    periods_us: Mapping[str, float]
    """Time from one command to the next: p50, p95, p99, max, mean."""
    compute_us: Mapping[str, float]
    """Time from reading to decision, the same figures."""
    loaded_modules: Sequence[str]
    """Top-level modules in this process, sorted."""
    wall_s: float
    cpu_s: float
    failure: str | None = None
    """One line where the driver was lost or the run interrupted."""
    interrupted: bool = False
    """Stopped from outside (Ctrl-C): the hold action was sent last."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What the driver adds: `trace` for a replayed trace."""

    @property
    def success_rate(self) -> float | None:
        """Share of ended episodes that succeeded; None where none ended."""
        return self.successes / self.episodes if self.episodes else None

    @property
    def forbidden_modules(self) -> tuple[str, ...]:
        """Modules that should not be here."""
        return tuple(name for name in FORBIDDEN_MODULES if name in self.loaded_modules)

    @property
    def ok(self) -> bool:
        """The driver stayed, a trace was equal within its tolerance, and nothing heavy was loaded."""
        trace = self.details.get("trace", {"ok": True})
        return self.failure is None and self.steps > 0 and bool(trace["ok"]) and not self.forbidden_modules

    def to_dict(self) -> dict[str, Any]:
        """JSON data for a result file."""
        return {
            "ok": self.ok,
            "driver": self.driver,
            "task": self.task,
            "steps": self.steps,
            "episodes": self.episodes,
            "success_rate": self.success_rate,
            "interventions": dict(self.interventions),
            "notes": list(self.notes),
            "held": self.held,
            "periods_us": dict(self.periods_us),
            "compute_us": dict(self.compute_us),
            "loaded_modules": list(self.loaded_modules),
            "wall_s": self.wall_s,
            "cpu_s": self.cpu_s,
            "failure": self.failure,
            "interrupted": self.interrupted,
            **self.details,
        }


def deploy(
    bundle: Path | str,
    driver: str = "trace",
    seconds: float | None = None,
    episodes: int | None = None,
    seed: int = DEFAULT_SEED,
    realtime: bool = False,
) -> DeployReport:
    """Runs a bundle on a driver by its name.

    Args:
        bundle: Folder of the bundle.
        driver: `trace` replays the golden trace, `sim` runs the bundle's task in a simulator's process.
        seconds: Control time after which to stop.
        episodes: Episodes after which to stop; 10 where neither is given and the driver would go on for ever.
        seed: Episode i is reset with `seed` + i.
        realtime: Pace a simulator at the control rate.

    Raises:
        UserError: Unknown driver, a bundle that fails its checks, a simulator that cannot be started.
    """
    if driver not in DRIVERS:
        raise unknown_name("driver", driver, DRIVERS)
    loaded = load_bundle(bundle)
    if driver != "trace" and seconds is None and episodes is None:
        episodes = _DEFAULT_EPISODES
    return run(loaded, DRIVERS[driver](loaded, seed, realtime), seconds, episodes, name=driver)


def run(
    bundle: Bundle | OnnxController | Path | str,
    driver: Driver,
    seconds: float | None = None,
    episodes: int | None = None,
    name: str | None = None,
) -> DeployReport:
    """Drives until the driver has no more, `seconds` of control time or `episodes` have passed, or the driver is lost.

    Args:
        bundle: What to run; a controller that was opened before is taken as it is.
        driver: What to drive; closed at the end, whatever happens.
        seconds: Control time, commands / control_hz: in lockstep it is the simulation's, on a robot the wall clock's.
        episodes: Ended episodes.
        name: What the report calls the driver; its class where nothing is said.

    Raises:
        IntegrityError: The bundle fails its checks.
        LayoutError: The driver lacks a term that the controller needs.
    """
    start, start_cpu = time.monotonic(), _cpu_s()
    try:
        controller = bundle if isinstance(bundle, OnnxController) else OnnxController(bundle)
        loop = _Loop(controller, driver, seconds, episodes)
        failure = loop.run()
    finally:
        details = driver.close()
    return DeployReport(
        driver=name or type(driver).__name__,
        task=controller.manifest.task,
        steps=loop.filter.steps,
        episodes=len(loop.outcomes),
        successes=sum(loop.outcomes),
        interventions=loop.filter.counts,
        notes=loop.filter.notes,
        held=loop.filter.held,
        periods_us=_figures(np.diff(loop.written)),
        compute_us=_figures(np.asarray(loop.computed)),
        loaded_modules=loaded_modules(),
        wall_s=time.monotonic() - start,
        cpu_s=_cpu_s() - start_cpu,
        failure=failure,
        interrupted=loop.interrupted,
        details=details,
    )


def loaded_modules() -> tuple[str, ...]:
    """Top-level names of the modules loaded in this process, sorted."""
    return tuple(sorted({name.partition(".")[0] for name in sys.modules}))


class _Loop:
    """One run's state: the filter's account, outcomes of episodes, clock readings in seconds."""

    def __init__(self, controller: OnnxController, driver: Driver, seconds: float | None, episodes: int | None) -> None:
        manifest = controller.manifest
        self.controller, self.driver = controller, driver
        self.filter = SafetyFilter(
            controller.bundle.manifest.limits, component_names((*manifest.robot_terms, *manifest.entity_terms))
        )
        self.max_steps = None if seconds is None else round(seconds * manifest.control_hz)
        self.max_episodes = episodes
        self.interrupted = False
        self.outcomes: list[bool] = []
        self.written: list[float] = []
        """NaN between episodes: a reset is no control period."""
        self.computed: list[float] = []

    def run(self) -> str | None:
        """The loop; one line where it ended before its time."""
        try:
            while not self._finished():
                reading = self.driver.read()
                if reading is None:
                    return None
                if reading.success is not None:
                    self.outcomes.append(reading.success)
                    self.written.append(np.nan)
                    continue
                begin = time.perf_counter()
                vectors = self.controller.bind(reading.observation, reading.goal)
                decision = self.filter.decide(*vectors, reading.age_s, self.controller.answer)
                self.computed.append(time.perf_counter() - begin)
                self.driver.write(decision.action)
                self.written.append(time.perf_counter())
        except DriverLost as error:
            self.filter.hold("driver_lost", str(error))
            return str(error)
        except KeyboardInterrupt:
            self.interrupted = True
            with suppress(DriverLost):
                self.driver.write(self.filter.hold("interrupted", "stopped from outside").action)
            return "interrupted; the robot was told to hold"
        return None

    def _finished(self) -> bool:
        enough_steps = self.max_steps is not None and self.filter.steps >= self.max_steps
        return enough_steps or (self.max_episodes is not None and len(self.outcomes) >= self.max_episodes)


def _figures(seconds: np.ndarray) -> dict[str, float]:
    micro = seconds[np.isfinite(seconds)] * 1e6
    if not micro.size:
        return {}
    p50, p95, p99 = np.percentile(micro, (50, 95, 99))
    return {
        "p50": float(p50),
        "p95": float(p95),
        "p99": float(p99),
        "max": float(micro.max()),
        "mean": float(micro.mean()),
    }


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
