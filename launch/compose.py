"""From command-line arguments to one frozen configuration object, through Hydra's compose API."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from embodied.errors import UserError

from .keys import check_required, check_values, convert, expected, key_fields, nested_fields, split_arguments

CONF = Path(__file__).parent / "conf"


def _writable(node: DictConfig) -> DictConfig:
    """Clears the read-only flag that frozen dataclasses set, on every level (else every override fails)."""
    OmegaConf.set_readonly(node, None)
    for name in node:
        child = node._get_node(name)
        if isinstance(child, DictConfig) and not child._is_none():
            _writable(child)
    return node


def hydra_config(cls: type, arguments: Sequence[str], delta_keys: Sequence[str] = (), complete: bool = True) -> Any:
    """The verb's frozen configuration.

    Precedence: defaults of the dataclasses, then the named deltas in the order of `delta_keys`
    (`conf/delta/<key>/<value>.yaml`, where there is one), then what the user gave. Text is never parsed: only
    numbers, truth values, lists and nested keys pass through Hydra's override grammar.

    Args:
        cls: The verb's keys.
        arguments: The user's `key=value` words.
        delta_keys: Keys whose value names a delta.
        complete: Whether required keys have to be there.

    Raises:
        UserError: An unknown key, a value of the wrong type or out of range.
    """
    given = split_arguments(cls, arguments)
    if complete:
        check_required(cls, given)
    hints = get_type_hints(cls)
    own = key_fields(cls)
    typed = {name: convert(name, text, hints[name]) for name, text in given.items() if name in own}
    node = _writable(OmegaConf.structured(cls))
    deltas = []
    for name in delta_keys:
        value = typed.get(name, getattr(node, name))
        if isinstance(value, str) and value and (CONF / "delta" / name / f"{value}.yaml").is_file():
            deltas.append(f"+delta/{name}@_global_={value}")
    overrides = {name: text for name, text in given.items() if name not in own}
    composed = _compose(node, deltas, overrides, _nested_hints(cls))
    try:
        config = OmegaConf.to_object(composed)
    except (ValueError, OmegaConfBaseException) as error:
        raise UserError(_one_line(error)) from None
    # Text joins only here: inside OmegaConf `${...}` would be resolved.
    config = replace(config, **typed)
    check_values(cls, {name: getattr(config, name) for name in own})
    return config


def _nested_hints(cls: type) -> dict[str, Any]:
    """`group.key` to its type."""
    return {f"{group}.{f.name}": hint for group, inner in nested_fields(cls).items() for f, hint in inner}


def _compose(
    node: DictConfig, deltas: Sequence[str], overrides: Mapping[str, str], hints: Mapping[str, Any]
) -> DictConfig:
    words = [f"{name}={text}" for name, text in overrides.items()]
    ConfigStore.instance().store(name="verb", node=node)
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(version_base=None, config_dir=str(CONF)):
            return compose("verb", overrides=[*deltas, *words])
    except (HydraException, OmegaConfBaseException) as error:
        message = _one_line(error)
        named = [name for name in overrides if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", message)]
        culprit = named or (list(overrides) if len(overrides) == 1 else [])
        if len(culprit) == 1:
            (name,) = culprit
            raise UserError(f"{name}={overrides[name]}: expected {expected(hints[name])}") from None
        raise UserError(f"cannot read {' '.join(words)}: {message}") from None


def _one_line(error: BaseException) -> str:
    """The innermost cause's first line, after the override or key that it is about."""
    about = str(error).splitlines()[0].removeprefix("Error merging override ") if error.__cause__ else ""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = lines[0] if lines else type(error).__name__
    culprit = next((line.removeprefix("full_key: ") for line in lines if line.startswith("full_key: ")), "")
    about = about or culprit
    return f"{about}: {message}" if about and about not in message else message


def to_yaml(data: Mapping[str, Any]) -> str:
    """Plain data as YAML text, in the order given."""
    return yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True)
