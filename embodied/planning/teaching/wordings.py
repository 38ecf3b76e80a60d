"""The wordings and words of the data files, read once."""

from __future__ import annotations

import tomllib
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from embodied.planning.parser.tokens import HAN
from embodied.planning.teaching.markup import split_mark

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
FOLDER = Path(__file__).resolve().parent
_PARTS = ("colours", "kinds", "any", "unknown")
_IRREGULAR = {
    "put": ("putting", "put"), "set": ("setting", "set"), "drop": ("dropping", "dropped"), "pop": ("popping", "popped"),
    "stick": ("sticking", "stuck"), "bring": ("bringing", "brought"), "lay": ("laying", "laid"),
    "get": ("getting", "got"), "leave": ("leaving", "left"), "take": ("taking", "taken"), "send": ("sending", "sent"),
    "sweep": ("sweeping", "swept"), "pat": ("patting", "patted"), "grab": ("grabbing", "grabbed"),
    "grip": ("gripping", "gripped"), "hold": ("holding", "held"), "go": ("going", "gone"),
    "drive": ("driving", "driven"), "run": ("running", "run"), "stop": ("stopping", "stopped"),
    "come": ("coming", "come"), "see": ("seeing", "seen"), "swap": ("swapping", "swapped"),
    "keep": ("keeping", "kept"), "hit": ("hitting", "hit"), "drag": ("dragging", "dragged"),
    "plan": ("planning", "planned"), "skip": ("skipping", "skipped"), "feel": ("feeling", "felt"),
    "lie": ("lying", "lain"), "carry": ("carrying", "carried"), "tap": ("tapping", "tapped"),
    "plop": ("plopping", "plopped"), "stow": ("stowing", "stowed"), "tidy": ("tidying", "tidied"),
    "empty": ("emptying", "emptied"), "swing": ("swinging", "swung"), "give": ("giving", "given"),
    "pay": ("paying", "paid"), "scoop": ("scooping", "scooped"), "free": ("freeing", "freed"),
    "make": ("making", "made"), "let": ("letting", "let"), "steer": ("steering", "steered"),
    "top": ("topping", "topped"), "stand": ("standing", "stood"), "wander": ("wandering", "wandered"),
    "budge": ("budging", "budged"), "transfer": ("transferring", "transferred"), "look": ("looking", "looked"),
    "lower": ("lowering", "lowered"), "hover": ("hovering", "hovered"), "deliver": ("delivering", "delivered"),
    "gather": ("gathering", "gathered"), "position": ("positioning", "positioned"),
    "deposit": ("depositing", "deposited"), "ship": ("shipping", "shipped"), "lug": ("lugging", "lugged"),
    "slap": ("slapping", "slapped"), "tag": ("tagging", "tagged"), "rub": ("rubbing", "rubbed"),
    "nab": ("nabbing", "nabbed"), "fit": ("fitting", "fitted"), "hang": ("hanging", "hung"),
    "throw": ("throwing", "thrown"), "sling": ("slinging", "slung"), "slide": ("sliding", "slid"),
    "find": ("finding", "found"), "choose": ("choosing", "chosen"), "spin": ("spinning", "spun"),
    "dab": ("dabbing", "dabbed"), "bop": ("bopping", "bopped"), "slot": ("slotting", "slotted"),
    "inspect": ("inspecting", "inspected"),
}  # fmt: skip


@dataclass(frozen=True)
class Wordings:
    """One language's templates and words."""

    language: Language
    data: dict[str, Any]
    """Sections of `wordings_<language>.toml`."""
    colours: dict[str, list[str]]
    kinds: dict[str, list[str]]
    any_nouns: dict[str, list[str]]
    unknown: dict[str, list[str]]

    def all(self, section: str, name: str) -> list[str]:
        """Templates of one kind; empty where the language has none."""
        found: list[str] = self.data.get(section, {}).get(name, [])
        return found


@cache
def wordings(language: Language) -> Wordings:
    things = _things()[language]
    data = tomllib.loads((FOLDER / f"wordings_{language}.toml").read_text("utf-8"))
    parts = ({key: _taught(words) for key, words in things[part].items()} for part in _PARTS)
    return Wordings(language, data, *parts)


@cache
def _things() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((FOLDER / "things.toml").read_text("utf-8"))
    return found


def is_held_back(word: str) -> bool:
    """Whether a word is kept out of what is taught, because tests are written in it."""
    return zlib.crc32(word.lower().encode()) in _things()["held_back"]["marks"]


def _taught(words: list[str]) -> list[str]:
    return [word for word in words if not is_held_back(word)] or words[:1]


@cache
def lexicon() -> frozenset[str]:
    """Every word that some wording uses, in both languages: what the planner was taught."""
    found: set[str] = set()
    for language in LANGUAGES:
        told = wordings(language)
        for text in _strings((told.data, told.colours, told.kinds, told.any_nouns)):
            for item in text.replace("(", " ").replace(")", " ").replace("|", " ").split():
                if not item.startswith("<"):
                    found.update(split_mark(item)[0].replace("-", " ").lower().split())
                elif item.startswith("<fill:"):
                    found.add(item[6:].split("/")[0])
    for verb in list(found):
        if verb.isascii() and verb.isalpha() and not HAN.search(verb):
            found.update({plural(verb)} if len(verb) > 2 else ())
    for name in wordings("en").data["verbs"]:
        for verb in wordings("en").data["verbs"][name]:
            first = split_mark(verb.split()[0])[0]
            if not first.startswith("("):
                found.update((inflected(first, "ing"), inflected(first, "ed")))
    return frozenset(found)


@cache
def han_words() -> frozenset[str]:
    """Chinese words of two characters or more that texts are cut into."""
    return frozenset(word for word in lexicon() if len(word) > 1 and all(HAN.match(c) for c in word))


@cache
def known_colours() -> dict[str, str]:
    """Words for colours in both languages to canonical names."""
    return {
        word.replace("-", " "): name
        for told in map(_things().__getitem__, LANGUAGES)
        for name, words in told["colours"].items()
        for word in (name, *words)
    }


@cache
def known_kinds() -> dict[str, tuple[str, ...]]:
    """Nouns of both languages to the canonical kinds that they may name, the likeliest first."""
    found: dict[str, list[str]] = {}
    for told in map(_things().__getitem__, LANGUAGES):
        for name, words in told["kinds"].items():
            for word in (name, *words):
                kinds = found.setdefault(word, [])
                if name not in kinds:
                    kinds.insert(0 if word == name else len(kinds), name)
    return {word: tuple(kinds) for word, kinds in found.items()}


@cache
def any_nouns() -> dict[str, str]:
    """Nouns that fit every thing, zone, landmark or starting place, to which of these."""
    told = [_things()[language]["any"] for language in LANGUAGES]
    return {word: role for nouns in told for role, words in nouns.items() for word in words}


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.values() for text in _strings(item)]
    return [text for item in value for text in _strings(item)]


def inflected(verb: str, form: str) -> str:
    """`put` as putting (ing) or put (ed); other forms leave it as it is."""
    if form not in ("ing", "ed"):
        return verb
    if verb in _IRREGULAR:
        return _IRREGULAR[verb][form == "ed"]
    if verb.endswith("e") and not verb.endswith("ee"):
        return verb[:-1] + "ing" if form == "ing" else verb + "d"
    if form == "ed" and verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    return verb + form


def plural(noun: str) -> str:
    """The plural by English spelling."""
    if noun == "die":
        return "dice"
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"
