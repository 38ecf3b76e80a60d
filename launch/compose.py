"""From command-line arguments to one frozen configuration object, through Hydra's compose API."""

from __future__ import annotations

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

from .keys import check_required, check_values, convert, key_fields, split_arguments

CONF = Path(__file__).parent / "conf"


def _writable(node: DictConfig) -> DictConfig:
    """Clears the read-only flag that frozen dataclasses set, on every level (else every override fails)."""
    OmegaConf.set_readonly(node, None)
    for name in node:
        child = node._get_node(name)
        if isinstance(child, DictConfig) and not child._is_none():
            _writable(child)
    return node


def hydra_config(cls: type, arguments: Sequence[str], delta_keys: Sequence[str] = ()) -> Any:
    """The verb's frozen configuration.

    Precedence: defaults of the dataclasses, then the named deltas in the order of `delta_keys`
    (`conf/delta/<key>/<value>.yaml`, where there is one), then what the user gave. Text is never parsed: only
    numbers, truth values, lists and nested keys pass through Hydra's override grammar.

    Raises:
        UserError: An unknown key, a value of the wrong type or out of range.
    """
    given = split_arguments(cls, arguments)
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
    overrides = [f"{name}={text}" for name, text in given.items() if name not in own]
    composed = _compose(node, deltas, overrides)
    try:
        config = OmegaConf.to_object(composed)
    except (ValueError, OmegaConfBaseException) as error:
        raise UserError(_one_line(error)) from None
    # Text joins only here: inside OmegaConf `${...}` would be resolved.
    config = replace(config, **typed)
    check_values(cls, {name: getattr(config, name) for name in own})
    return config


def _compose(node: DictConfig, deltas: Sequence[str], overrides: Sequence[str]) -> DictConfig:
    ConfigStore.instance().store(name="verb", node=node)
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(version_base=None, config_dir=str(CONF)):
            return compose("verb", overrides=[*deltas, *overrides])
    except (HydraException, OmegaConfBaseException) as error:
        message = _one_line(error)
        told = any(word.partition("=")[0] in message for word in overrides)
        raise UserError(message if told else f"cannot read {' '.join(overrides)}: {message}") from None


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
