"""Settings that somebody wrote and that do nothing beside the others: refused, so that nobody waits for an effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from embodied.errors import UserError

from .keys import key_fields

if TYPE_CHECKING:
    from .verbs.train import KEYS as TrainKeys


@dataclass(frozen=True)
class Rule:
    """What is idle, and when."""

    names: tuple[str, ...]
    """Keys; `group.*` stands for all of a group."""
    holds: Callable[[TrainKeys], bool]
    why: Callable[[TrainKeys], str]
    """Follows on `does nothing`."""
    but: tuple[str, ...] = ()
    """Keys of such a group that are not idle."""

    def speaks_of(self, name: str) -> bool:
        """Whether a key is among the rule's."""
        return name not in self.but and (name in self.names or f"{name.partition('.')[0]}.*" in self.names)


def _about_an_object(config: TrainKeys) -> bool:
    from embodied.run.relay import relay_fits
    from robots.registry import spec_of

    return relay_fits(spec_of(config.task))


RULES = (
    Rule(
        ("relay.*", "replay.gripper_share", "replay.lost_after"),
        lambda config: not _about_an_object(config),
        lambda config: f"in {config.task}, which is about no object",
    ),
    Rule(
        ("relay.*", "replay.lost_after"), lambda config: not config.relay.enabled,
        lambda _: "with relay.enabled=false", but=("relay.enabled",),
    ),
    Rule(
        ("relay.gentle", "relay.gentle_within_m", "relay.gentle_in_contact"),
        lambda config: config.relay.gentle_share == 0.0, lambda _: "with relay.gentle_share=0",
    ),
    Rule(
        ("replay.settle",), lambda config: not (config.replay.success_ends or config.replay.success_ends_later),
        lambda _: "with replay.success_ends=0",
    ),
    Rule(
        ("replay.later_after",),
        lambda config: config.replay.success_ends_later is None and config.replay.n_step_later is None,
        lambda _: "without replay.success_ends_later= or replay.n_step_later=",
    ),
    Rule(
        ("loop.random_until",), lambda config: config.loop.random_share == 0.0, lambda _: "with loop.random_share=0"
    ),
    Rule(("sac.max_concentration",), lambda config: config.sac.law == "tanh", lambda _: "with sac.law=tanh"),
    Rule(("record_layout",), lambda config: not config.record, lambda _: "without record="),
)  # fmt: skip
OFF: Mapping[str, Any] = {
    "replay.lost_after": None, "replay.settle": 0, "loop.random_until": None, "record_layout": "auto",
}  # fmt: skip
"""Values that ask for nothing: they may be written anywhere."""


def idle_in_training(config: TrainKeys, names: Iterable[str]) -> dict[str, str]:
    """Those of these keys that do nothing in a training of this configuration, each with the reason."""
    found: dict[str, str] = {}
    for name in names:
        if name in OFF and _value(config, name) == OFF[name]:
            continue
        rule = next((rule for rule in RULES if rule.speaks_of(name) and rule.holds(config)), None)
        if rule is not None:
            found[name] = rule.why(config)
    return found


def idle_by_choice(cls: type, chosen: str, value: str, names: Iterable[str]) -> dict[str, str]:
    """Those of these keys that belong to other values of the key `chosen` (`of` of `embodied_launch.keys.key`)."""
    of = {name: f.metadata["of"] for name, f in key_fields(cls).items()}
    return {name: f"with {chosen}={value}" for name in names if of.get(name) and value not in of[name]}


def refuse(idle: Mapping[str, str]) -> None:
    """
    Raises:
        UserError: There are some; names the first and those that are idle for the same reason.
    """
    if idle:
        why = next(iter(idle.values()))
        names = [name for name, reason in idle.items() if reason == why]
        raise UserError(f"{', '.join(names)}: does nothing {why}: leave it out")


def _value(config: Any, name: str) -> Any:
    for part in name.split("."):
        config = getattr(config, part)
    return config
