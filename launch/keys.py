"""What each verb may be told: keys with meaning, unit, default and valid values. Imports nothing heavy."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from embodied.errors import UserError, unknown_name

_NO_DEFAULT = object()


def key(
    help: str,
    default: Any = _NO_DEFAULT,
    *,
    unit: str = "",
    choices: Sequence[str] = (),
    literal: bool = False,
    minimum: float | None = None,
    refused: str = "",
    of: Sequence[str] = (),
) -> Any:
    """A field of a verb's keys.

    Args:
        help: What it does, in a few words.
        default: Its default; a key without one is required.
        unit: Printed beside the type.
        choices: The valid words, where there are only some.
        literal: Free text or a path: taken as it stands, never parsed.
        minimum: The least valid number.
        refused: Why the verb takes no such key although its keys are built on those of a verb that does; it is not
            listed then.
        of: Values of another key (a suite, a driver) that look at this one, where not all do.
    """
    required = default is _NO_DEFAULT
    meta = {
        "help": f"{', '.join(of)}: {help}" if of else help, "unit": unit, "choices": tuple(choices),
        "literal": literal, "minimum": minimum,
        "required": required, "refused": refused, "of": tuple(of),
    }  # fmt: skip
    return field(default="" if required else default, metadata=meta)


def nested(cls: type, hidden: Sequence[str] = ()) -> Any:
    """A field that holds another part's configuration: its fields are set as `name.field=value`.

    Those `hidden` are not: the verb has keys of its own for them.
    """
    return field(default_factory=cls, metadata={"hidden": tuple(hidden)})


def key_fields(cls: type) -> dict[str, Field[Any]]:
    """The verb's own keys, nested configurations left out."""
    return {f.name: f for f in fields(cls) if "required" in f.metadata}


def nested_fields(cls: type) -> dict[str, list[tuple[Field[Any], Any]]]:
    """Nested configurations by name: their fields that may be set, with types."""
    hints = get_type_hints(cls)
    found = {}
    for f in fields(cls):
        if is_dataclass(hints[f.name]):
            inner = get_type_hints(hints[f.name])
            found[f.name] = [(g, inner[g.name]) for g in fields(hints[f.name]) if g.name not in f.metadata["hidden"]]
    return found


def base_type(hint: Any) -> tuple[type, bool]:
    """(type, may be null) of a key's annotation."""
    if get_origin(hint) in (Union, UnionType):
        args = [a for a in get_args(hint) if a is not NoneType]
        return args[0], True
    return hint, False


def list_item(hint: Any) -> type | None:
    """The items' type of a key that is a list (`tuple[T, ...]`), else None."""
    return get_args(hint)[0] if get_origin(hint) is tuple else None


def split_list(text: str) -> list[str]:
    """`a,b` or `[a,b]` at its commas; those within brackets belong to an item, as in `a,widths=[64,64]`.

    Raises:
        UserError: A bracket without its fellow, or an empty item.
    """
    inner = text.strip()
    items = _at_commas(inner)
    if len(items) == 1 and inner.startswith("[") and inner.endswith("]"):
        inner = inner[1:-1].strip()
        items = _at_commas(inner)
    if not inner:
        return []
    if not all(items):
        raise UserError(f"cannot read the list '{text}': write it as a,b or [a,b]")
    return items


def _at_commas(text: str) -> list[str]:
    """Pieces between the commas that stand in no bracket; none at all where brackets do not match."""
    items, depth = [""], 0
    for letter in text:
        depth += (letter in "[({") - (letter in "])}")
        if depth < 0:
            return [""]
        if letter == "," and depth == 0:
            items.append("")
        else:
            items[-1] += letter
    return [item.strip() for item in items] if depth == 0 else [""]


def all_key_names(cls: type) -> list[str]:
    """Every name that may stand before a `=`."""
    names = [name for name, f in key_fields(cls).items() if not f.metadata["refused"]]
    for group, inner in nested_fields(cls).items():
        names += [f"{group}.{f.name}" for f, _ in inner]
    return names


def split_arguments(cls: type, arguments: Sequence[str]) -> dict[str, str]:
    """`key=value` arguments as a dictionary; split at the first `=`.

    Raises:
        UserError: No `=`, an unknown key, or a key given twice.
    """
    given: dict[str, str] = {}
    for argument in arguments:
        name, sign, value = argument.partition("=")
        if not sign:
            raise UserError(f"'{argument}' is not key=value; keys: {', '.join(key_fields(cls))}")
        if name not in all_key_names(cls):
            if name in key_fields(cls):
                raise UserError(f"{name}= {key_fields(cls)[name].metadata['refused']}")
            groups = [f"{group}.*" for group in nested_fields(cls)]
            own = [item for item in all_key_names(cls) if "." not in item]
            raise unknown_name("key", name, [*own, *groups]) if "." not in name else _unknown_nested(cls, name)
        if name in given:
            raise UserError(f"the key '{name}' is given twice")
        given[name] = value
    return given


def _unknown_nested(cls: type, name: str) -> UserError:
    """An error for an unknown `group.key`: there are too many to name them all."""
    known, group = [item for item in all_key_names(cls) if "." in item], name.partition(".")[0]
    near = get_close_matches(name, known, n=3) or [item for item in known if item.endswith(f".{name.split('.')[-1]}")]
    if near:
        return UserError(f"unknown key '{name}'; did you mean {' or '.join(near)}?")
    groups = sorted({item.partition(".")[0] for item in known})
    own = [item for item in known if item.startswith(f"{group}.")]
    told = f"keys of {group}: {', '.join(own)}" if own else f"groups: {', '.join(f'{item}.*' for item in groups)}"
    return UserError(f"unknown key '{name}'; {told if known else 'the verb has no keys with a dot'}")


def check_required(cls: type, given: Mapping[str, str]) -> None:
    """Refuses a missing or empty required key."""
    for name, f in key_fields(cls).items():
        if f.metadata["required"] and not given.get(name, "").strip():
            raise UserError(f"{name}= is required: {f.metadata['help']}")


def convert(name: str, text: str, hint: Any) -> Any:
    """One plain value from its text.

    Raises:
        UserError: The text is not of the type.
    """
    if (item := list_item(hint)) is not None:
        return tuple(convert(name, part, item) for part in split_list(text))
    kind, optional = base_type(hint)
    if optional and text in ("null", ""):
        return None
    if kind is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise UserError(f"{name}={text}: expected true or false")
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            noun = "a whole number" if kind is int else "a number"
            raise UserError(f"{name}={text}: expected {noun}") from None
    return text


def check_values(cls: type, values: Mapping[str, Any]) -> None:
    """Refuses words that are not among the choices or stand twice in a list, and numbers below the minimum (or NaN)."""
    for name, f in key_fields(cls).items():
        value, meta = values[name], f.metadata
        if value is None:
            continue
        for item in value if isinstance(value, list | tuple) else (value,):
            if meta["choices"] and item not in meta["choices"]:
                raise unknown_name(f"{name}", str(item), meta["choices"])
            if isinstance(item, str) and isinstance(value, list | tuple) and Counter(value)[item] > 1:
                raise UserError(f"{name}={','.join(value)} names {item} twice")
            if meta["minimum"] is not None and not item >= meta["minimum"]:
                raise UserError(f"{name}={item}: must be at least {meta['minimum']}")


def light_config(cls: type, arguments: Sequence[str]) -> Any:
    """The verb's keys without Hydra, for verbs that run where only numpy is installed."""
    given = split_arguments(cls, arguments)
    check_required(cls, given)
    hints = get_type_hints(cls)
    values = {
        name: convert(name, given[name], hints[name]) if name in given else f.default
        for name, f in key_fields(cls).items()
    }
    check_values(cls, values)
    return cls(**values)


def help_text(verb: str, summary: str, cls: type, config: Any = None, note: str = "") -> str:
    """The page that `embodied <verb> --help` prints.

    Args:
        verb: Its name.
        summary: What it does.
        cls: Its keys.
        config: One of these whose values are shown as the defaults; None: those of the class.
        note: Stands before the keys.
    """
    hints = get_type_hints(cls)
    rows = []
    for name, f in key_fields(cls).items():
        if f.metadata["refused"]:
            continue
        rows.append((f"{name}=", _kind_text(f, hints[name]), _default_text(f, config), f.metadata["help"]))
    for group, inner in nested_fields(cls).items():
        words = field_docs(base_type(hints[group])[0])
        rows += [
            (f"{group}.{f.name}=", _type_name(hint), _plain_default(f, config and getattr(config, group)),
             words.get(f.name, ""))
            for f, hint in inner
        ]  # fmt: skip
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    lines = [f"embodied {verb} key=value ...", "", summary, "", *([note, ""] if note else [])]
    lines += ["  " + "  ".join([*(row[i].ljust(widths[i]) for i in range(3)), row[3]]).rstrip() for row in rows]
    return "\n".join(lines)


def with_hidden(config: Any) -> Any:
    """A configuration whose empty keys show what the hidden fields that they stand for say (`nested`)."""
    hidden = {}
    for f in fields(config):
        for name in f.metadata.get("hidden", ()):
            if getattr(config, name) is None:
                hidden[name] = getattr(getattr(config, f.name), name)
    return replace(config, **hidden)


def field_docs(cls: type) -> dict[str, str]:
    """The docstring under each field of a class, on one line."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field_node, doc in zip(body.body, body.body[1:], strict=False):
        if isinstance(field_node, ast.AnnAssign) and isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant):
            found[ast.unparse(field_node.target)] = " ".join(str(doc.value.value).split())
    return found


def _type_name(hint: Any) -> str:
    if (item := list_item(hint)) in (int, float, str):
        return f"{_type_name(item)},..."
    kind, _ = base_type(hint)
    return {int: "int", float: "float", bool: "true|false", str: "text"}.get(kind, getattr(kind, "__name__", str(kind)))


def _kind_text(f: Field[Any], hint: Any) -> str:
    text = "|".join(f.metadata["choices"]) or _type_name(hint)
    return f"{text} [{f.metadata['unit']}]" if f.metadata["unit"] else text


def _default_text(f: Field[Any], config: Any) -> str:
    value = f.default if config is None else getattr(config, f.name)
    if f.metadata["required"] and not value:
        return "required"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "" if value in (None, "") else str(value)


def _plain_default(f: Field[Any], config: Any) -> str:
    if config is not None:
        return str(getattr(config, f.name))
    if f.default is not MISSING:
        return str(f.default)
    return str(f.default_factory()) if f.default_factory is not MISSING else ""


def expected(hint: Any) -> str:
    """What a key of this type takes, in words."""
    kind, optional = base_type(hint)
    if (item := list_item(hint)) is not None:
        return (
            f"a list such as [64,64] of {'whole numbers' if item is int else 'numbers' if item is float else 'words'}"
        )
    noun = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}.get(kind, kind.__name__)
    return f"{noun} or null" if optional else noun


@dataclass(frozen=True)
class NoKeys:
    """For verbs that take only an output folder."""

    out: str = key("folder for result.json; default runs/<verb>/<time>", "", literal=True)
