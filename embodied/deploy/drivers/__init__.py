"""What the runtime can drive, by name. A driver is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embodied.deploy.drivers.base import Driver
    from embodied.deploy.policy import Bundle


def _trace(bundle: Bundle, seed: int, realtime: bool) -> Driver:
    from embodied.deploy.drivers.trace import TraceDriver

    return TraceDriver(bundle)


def _sim(bundle: Bundle, seed: int, realtime: bool) -> Driver:
    from embodied.deploy.drivers.sim import SimDriver

    return SimDriver(bundle.manifest.policy, seed, realtime)


DRIVERS: dict[str, Callable[[Bundle, int, bool], Driver]] = {"trace": _trace, "sim": _sim}
"""(bundle, seed of the first episode, pace by the wall clock) -> driver."""
