"""What can be said of a scene, as data: kinds, colours, sizes, facts, relations, kinds of scene and places.

The shipped vocabulary is `data/vocabulary.toml`; a file of the user's in the same form is merged over it, so a
predicate is added by adding lines:

    [relations.leaning_on]
    positive = ["the {a} leans on the {b}"]
    negative = ["the {a} does not lean on the {b}"]
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

from embodied.errors import UserError, unknown_name

DATA = Path(__file__).resolve().parent / "data"
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


@dataclass(frozen=True)
class Group:
    """What the wordings of a group's entries may and must speak of."""

    allowed: frozenset[str]
    needed: frozenset[str] = frozenset()
    has_words: bool = False


GROUPS: dict[str, Group] = {
    "kinds": Group(frozenset({"colour"}), has_words=True),
    "colours": Group(frozenset({"kind"}), frozenset({"kind"}), has_words=True),
    "sizes": Group(frozenset({"colour", "kind"}), frozenset({"kind"}), has_words=True),
    "facts": Group(frozenset({"a"}), frozenset({"a"})),
    "relations": Group(frozenset({"a", "b"}), frozenset({"a", "b"})),
    "scenes": Group(frozenset()),
    "places": Group(frozenset({"a"})),
}


@dataclass(frozen=True)
class Entry:
    """One thing that can be said."""

    name: str
    """Canonical; facts and relations that `embodied.facts` knows have its names."""
    positive: tuple[str, ...]
    """Templates of wordings that say it, with `{a}`, `{b}`, `{colour}`, `{kind}` as the group allows."""
    negative: tuple[str, ...]
    """Templates of wordings that deny it."""
    words: tuple[str, ...] = ()
    """Other words for a kind, colour or size."""

    def says(self, **values: str) -> tuple[str, ...]:
        """The positive wordings that can be filled with these values: `says(colour="red")`; at least one.

        An article is put right: `a {colour} block` with orange is `an orange block`. A colour that is not given is
        left out of a wording.

        Raises:
            UserError: No wording can be filled with these values.
        """
        return _filled(self, self.positive, values)

    def denies(self, **values: str) -> tuple[str, ...]:
        """The negative wordings, filled as in `says`."""
        return _filled(self, self.negative, values)


@dataclass(frozen=True)
class Vocabulary:
    """Entries by canonical name, in the order of the files."""

    kinds: Mapping[str, Entry] = field(default_factory=dict)
    colours: Mapping[str, Entry] = field(default_factory=dict)
    sizes: Mapping[str, Entry] = field(default_factory=dict)
    facts: Mapping[str, Entry] = field(default_factory=dict)
    """Said of one thing."""
    relations: Mapping[str, Entry] = field(default_factory=dict)
    """Said of two things."""
    scenes: Mapping[str, Entry] = field(default_factory=dict)
    places: Mapping[str, Entry] = field(default_factory=dict)
    """Parts of the work surface, as the robot sees them."""

    def group(self, name: str) -> Mapping[str, Entry]:
        """
        Raises:
            UserError: There is no group of this name.
        """
        if name not in GROUPS:
            raise unknown_name("group of the vocabulary", name, GROUPS)
        group: Mapping[str, Entry] = getattr(self, name)
        return group

    def words(self, group: str) -> dict[str, str]:
        """Every word of a group to its canonical name: `cube` to `block`, and `block` to itself."""
        return {word: entry.name for entry in self.group(group).values() for word in (entry.name, *entry.words)}


def load_vocabulary(extra: Path | None = None) -> Vocabulary:
    """The shipped vocabulary, with a file of the user's merged over it.

    A new entry is added. Of an entry that is there already, the wordings and words of both hold; a word that the file
    gives to another entry than the shipped one is taken away from that.

    Raises:
        UserError: The file cannot be read, or an entry is not of the form above; names file and entry.
    """
    shipped = _shipped()
    return shipped if extra is None else _merged(shipped, _read(Path(extra), shipped))


@cache
def _shipped() -> Vocabulary:
    return _read(DATA / "vocabulary.toml", Vocabulary())


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file's contents.

    Raises:
        UserError: It cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(f"vocabulary file '{path}' cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"vocabulary file '{path}' is not TOML: {str(error).splitlines()[0]}") from error


def _read(path: Path, known: Vocabulary) -> Vocabulary:
    groups: dict[str, dict[str, Entry]] = {}
    for name, content in read_toml(path).items():
        if name not in GROUPS:
            raise UserError(f"{path}: [{name}] is no group of the vocabulary; valid: {', '.join(GROUPS)}")
        if not isinstance(content, dict):
            raise UserError(f"{path}: '{name}' must be a group of entries, for instance [{name}.some_name]")
        here = known.group(name)
        groups[name] = {
            key: _entry(f"{path}: [{name}.{key}]", name, key, value, here) for key, value in content.items()
        }
        _check_unique(path, name, groups[name])
    return Vocabulary(**groups)


def _entry(where: str, group: str, name: str, content: Any, known: Mapping[str, Entry]) -> Entry:
    if not NAME.fullmatch(name):
        raise UserError(f"{where}: a canonical name is of a-z, 0-9 and _, begins with a letter, at most 40 characters")
    if not isinstance(content, dict):
        raise UserError(f"{where} must be an entry with lists called positive and negative")
    keys = ("positive", "negative", *(("words",) if GROUPS[group].has_words else ()))
    for key in content:
        if key not in keys:
            raise UserError(f"{where}: '{key}' is unknown; valid: {', '.join(keys)}")
    lists = {key: _strings(f"{where} {key}", content.get(key, [])) for key in keys}
    for key in ("positive", "negative"):
        if not lists[key] and name not in known:
            raise UserError(f"{where}: at least one {key} wording is needed")
        for template in lists[key]:
            _check_template(f'{where} {key} "{template}"', GROUPS[group], template)
    return Entry(name, lists["positive"], lists["negative"], tuple(w.casefold() for w in lists.get("words", ())))


def _strings(where: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise UserError(f"{where} must be a list of texts that are not empty")
    return tuple(item.strip() for item in value)


def _check_template(where: str, group: Group, template: str) -> None:
    fields = _fields(where, template)
    allowed = " ".join(f"{{{name}}}" for name in sorted(group.allowed)) or "none"
    for name in sorted(fields - group.allowed):
        raise UserError(f"{where}: {{{name}}} is unknown here; allowed: {allowed}")
    for name in sorted(group.needed - fields):
        raise UserError(f"{where}: {{{name}}} is missing")


def _fields(where: str, template: str) -> set[str]:
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise UserError(f"{where}: {error}") from error
    if any(spec or conversion for _, _, spec, conversion in parts):
        raise UserError(f"{where}: write {{a}} and the like without formats")
    return {name for _, name, _, _ in parts if name is not None}


def _check_unique(path: Path, group: str, entries: Mapping[str, Entry]) -> None:
    owner: dict[str, str] = {}
    for entry in entries.values():
        for word in (entry.name, *entry.words):
            if owner.setdefault(word, entry.name) != entry.name:
                raise UserError(
                    f"{path}: '{word}' is a word of both [{group}.{owner[word]}] and [{group}.{entry.name}]"
                )


def _merged(shipped: Vocabulary, extra: Vocabulary) -> Vocabulary:
    return Vocabulary(**{name: _merged_group(shipped.group(name), extra.group(name)) for name in GROUPS})


def _merged_group(shipped: Mapping[str, Entry], extra: Mapping[str, Entry]) -> dict[str, Entry]:
    claimed = {word: entry.name for entry in extra.values() for word in (entry.name, *entry.words)}
    merged = {
        entry.name: replace(entry, words=tuple(w for w in entry.words if claimed.get(w, entry.name) == entry.name))
        for entry in shipped.values()
    }
    for entry in extra.values():
        before = merged.get(entry.name, Entry(entry.name, (), ()))
        merged[entry.name] = Entry(
            entry.name,
            _union(before.positive, entry.positive),
            _union(before.negative, entry.negative),
            _union(before.words, entry.words),
        )
    return merged


def _union(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(first + second))


def _filled(entry: Entry, templates: tuple[str, ...], values: Mapping[str, str]) -> tuple[str, ...]:
    given = {"colour": "", **values}
    filled = [tidy(text.format(**given)) for text in templates if _names(text) <= given.keys()]
    if not filled:
        needed = ", ".join(sorted(set[str]().union(*map(_names, templates)) - given.keys()))
        raise UserError(f"no wording of '{entry.name}' can be filled: {needed} is missing")
    return tuple(filled)


def _names(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def tidy(text: str) -> str:
    """One space between words, and `a` or `an` as the next letter asks."""
    text = " ".join(text.split())
    text = re.sub(r"\b([Aa])n (?=[^aeiou\W])", r"\1 ", text)
    return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)


def untold(vocabulary: Vocabulary, told: Sequence[str] = ()) -> tuple[str, ...]:
    """One phrase, or none, about a user's entries that a describer of pictures has no way to see.

    Words and wordings for what is known change nothing here. A new kind can be told by wordings alone, where no head
    was fitted to a list of names; a colour is one of the canonical ones; and what a new fact or relation looks like, or
    where a new place begins, no wording says to a model.

    Args:
        vocabulary: With a user's file merged into it.
        told: Groups of which new entries are told.
    """
    shipped = load_vocabulary()
    added = {group: [name for name in vocabulary.group(group) if name not in shipped.group(group)] for group in GROUPS}
    listed = [f"{group} {', '.join(names)}" for group, names in added.items() if names and group not in told]
    return (f"anything of one's own words that cannot be seen here: {'; '.join(listed)}",) if listed else ()


def entries(vocabulary: Vocabulary) -> Iterator[tuple[str, Entry]]:
    """Every entry with the name of its group."""
    for name in GROUPS:
        for entry in vocabulary.group(name).values():
            yield name, entry
