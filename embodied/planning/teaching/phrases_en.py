"""English noun phrases with their parse."""

from __future__ import annotations

from embodied.planning.teaching.markup import Fragment, Word, expand, plain_words
from embodied.planning.teaching.mentions import Made, Speaker, Thing, attribute, not_but_other

WEIGHTS = {
    "simple": 60, "bare": 15, "pronoun": 6, "universal": 6, "everything": 3, "except": 3.5, "rest": 4, "side": 6,
    "nearest": 3.5, "related": 4, "not_colour": 1.5, "any": 3, "ident": 1.5, "size": 2.5, "nth": 0.7, "other": 3,
}  # fmt: skip
_SIZES = {
    "small": ["small", "smaller", "smallest", "little", "tiny", "tiniest", "mini",
        "wee", "teeny", "littler", "littlest", "petite"],
    "large": ["big", "bigger", "biggest", "large", "larger", "largest", "huge", "giant", "great",
        "massive", "chunky", "bulky"],
    "tall": ["tall", "taller", "tallest", "high", "highest"],
    "short": ["short", "shorter", "shortest", "low", "lowest"],
}  # fmt: skip
_SIDES = {
    "s_left": ["left", "left-hand", "leftmost", "left", "far left", "left hand"],
    "s_right": ["right", "right-hand", "rightmost", "right", "far right", "right hand"],
    "s_front": ["front", "foremost", "frontmost", "nearer", "closer"],
    "s_back": ["rear", "back", "rearmost", "farther", "furthest"],
    "s_middle": ["middle", "central", "center", "centre"],
}  # fmt: skip
_AFTER_SIDE = {
    "s_left": "(on|to) (the|your|its|my) (left/s_left|left/s_left side|far left/s_left|left/s_left hand side)",
    "s_right": "(on|to) (the|your|its|my) (right/s_right|right/s_right side|far right/s_right|right/s_right hand side)",
    "s_front": "(in|at) the front/s_front", "s_back": "(in|at) the (back/s_back|rear/s_back)",
    "s_middle": "in the (middle/s_middle|centre/s_middle|center/s_middle)",
}  # fmt: skip


def _determiner(by: Speaker) -> list[Word]:
    if not by.articles or by.chance(0.06):
        return []
    return [Word("the" if by.chance(0.88) else by.pick(["that", "this", "my", "our", "your"]))]


def _noun(by: Speaker, thing: Thing, many: bool = False) -> Made:
    return by.span(by.noun_word(thing, many), "ns" if many else "n")


def _properties(by: Speaker, thing: Thing, colour: float = 0.8) -> list[Word]:
    words: list[Word] = []
    if by.chance(0.07):
        size = by.rng.choice(list(_SIZES))
        words.append(Word(by.pick(_SIZES[size]), size))
    if by.chance(0.015):
        words.append(Word(by.pick(by.told.unknown["properties"]), "adj"))
    if by.chance(colour):
        words += by.span(by.colour_word(thing), "col")[0]
        if by.chance(0.04):
            words.append(Word(by.pick(["coloured", "colored", "colour"])))
    return words


def _simple(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    determiner, before = _determiner(by), _properties(by, thing)
    noun, head = _noun(by, thing)
    after: list[Word] = []
    if not any(word.label == "col" for word in before) and by.chance(0.25):
        after = plain_words(by.pick(["that is", "which is", "that's", "in", "coloured", "painted"]).split())
        after += by.span(by.colour_word(thing), "col")[0]
    return determiner + before + noun + after, head


def _bare(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    """`red`, `the red`, `the red one`."""
    colour, head = by.span(by.colour_word(thing), "col")
    kind = by.rng.random()
    if kind < 0.4:
        return colour, head
    size = []
    if by.chance(0.1):
        name = by.rng.choice(list(_SIZES))
        size = [Word(by.pick(_SIZES[name]), name)]
    determiner = _determiner(by)
    if kind < 0.5:
        return determiner + size + colour, head
    one = Word("one", "n")
    return determiner + size + colour + [one], one


def _pronoun(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    if slot in ("zone", "under", "beside", "goal") and by.chance(0.3):
        head = Word("there", "there")
        return [head], head
    if by.chance(0.1):
        one = Word("one", "pron")
        return [Word(by.pick(["that", "this", "the same"])), one], one
    head = Word(
        by.pick(["it", "it", "it", "them", "that", "this", "these", "those", "both/both", "the latter"]), "pron"
    )
    if head.text == "both/both":
        return [Word("them", "pron")] * 0 + [both := Word("both", "both")], both
    if " " in head.text:
        latter = Word("latter", "pron")
        return [Word("the"), latter], latter
    return [head], head


def _universal(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    if by.chance(0.3):
        noun, head = _noun(by, thing)
        lead = [Word(by.pick(["every", "each", "every single"]).split()[0], "all")]
        return lead + _properties(by, thing, 0.4) + noun, head
    noun, head = _noun(by, thing, many=True)
    if by.chance(0.2) and noun[-1].text not in ("ones",):
        noun, head = [one := Word("ones", "ns")], one
        return _lead(by) + _properties(by, thing, 1.0) + noun, head
    where = _where(by, depth, head) if by.chance(0.12) else []
    return _lead(by) + _properties(by, thing, 0.5) + noun + where, head


def _where(by: Speaker, depth: int, head: Word) -> list[Word]:
    """`in the tray`, of several things."""
    assert by.relate is not None
    relation = by.relate(by.pick(["in", "in", "on", "on", "left", "right", "near", "behind"]), depth + 1)
    relation.hang("restr", head)
    return (
        plain_words(by.pick(["", "", "that are", "which are", "lying", "currently", "sitting"]).split())
        + relation.words
    )


def _lead(by: Speaker) -> list[Word]:
    return plain_words(expand(by.pick(by.told.data["mentions"]["lead"]), by.rng))


def _everything(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    if by.chance(0.2):
        words = plain_words(by.pick(by.told.data["mentions"]["lot"]).split())
        head = next(word for word in words if word.label == "all")
        return words, head
    head = Word(
        "everything" if by.chance(0.75) else by.pick(["anything", "all", "all things", "every object"]).split()[0],
        "all",
    )
    after: list[Word] = []
    if by.chance(0.15):
        return [head, *_where(by, depth, head)], head
    if by.chance(0.35):
        after = plain_words(by.pick(["", "that is", "which is", "that 's"]).split())
        if after and by.chance(0.35):
            after.append(Word("not", "neg"))
        colour, last = by.span(by.colour_word(thing), "col")
        if after and after[-1].label == "neg":
            after[-1].arc, after[-1].head = "mark", last
        after += colour
    return [head, *after], head


def _except(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    words, head = _everything(by, thing, depth, slot) if by.chance(0.45) else _universal(by, thing, depth, slot)
    attribute(head, words)
    marks = by.pick(by.told.data["mentions"]["except"])
    out = by.mentions(slot, depth + 1)
    out.hang("except", head)
    if by.chance(0.12):
        return [*plain_words(marks.split()), *out.words, Word(","), *words], head
    return [*words, *plain_words(marks.split()), *out.words], head


def _rest(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    told = by.told.data["mentions"]
    words = plain_words(expand(by.pick(told["rest"]), by.rng))
    if by.chance(0.35):
        noun, head = _noun(by, thing, many=True)
        lead = plain_words(expand(by.pick(told["rest_before"]), by.rng))
        return lead + noun, head
    marked = [word for word in words if word.label != "nil"]
    head = next((w for w in marked if w.label == "ns"), marked[0] if marked[0].label == "all" else marked[-1])
    if by.chance(0.12):
        out = by.mentions(slot, depth + 1)
        out.hang("except", head)
        return [*plain_words(by.pick(told["except"]).split()), *out.words, Word(","), *words], head
    return words, head


def _side(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    side = by.rng.choices(list(_SIDES), [8, 8, 2, 2, 2])[0]
    determiner = _determiner(by)
    if by.chance(0.3):
        noun, head = ([one := Word("one", "n")], one) if by.chance(0.3) else _noun(by, thing)
        words = determiner + _properties(by, thing, 0.4) + noun
        return words + plain_words(by.pick(["", "that is", "which is"]).split()) + plain_words(
            expand(_AFTER_SIDE[side], by.rng)
        ), head
    lead = [Word(part, side if part not in ("far", "hand") else "nil") for part in by.pick(_SIDES[side]).split()]
    kind = by.rng.random()
    if kind < 0.1:
        return determiner + lead, next(word for word in lead if word.label == side)
    noun, head = ([one := Word("one", "n")], one) if kind < 0.3 else _noun(by, thing)
    return determiner + lead + _properties(by, thing, 0.4) + noun, head


def _nearest(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    """`the cube closest to the can`, `whichever is nearest to you`."""
    far = by.chance(0.25)
    label = "sup_far" if far else "sup_near"
    sup = (
        ["farthest", "farther", "furthest", "further", "remotest"]
        if far
        else ["closest", "nearest", "closer", "nearer", "closest", "nearest"]
    )
    sup_word = Word(by.pick(sup), label)
    to = [Word("from" if far else by.pick(["to", "to", "to", "by"]))]
    other = (
        by.mention("any", depth + 1, single=True)
        if by.chance(0.85)
        else Fragment([Word(by.pick(["you", "the robot", "me", "yourself", "the arm"]).split()[-1])])
    )
    other.hang("ground", sup_word)
    determiner = _determiner(by)
    kind = by.rng.random()
    if kind > 0.93 and other.heads:
        noun, head = _noun(by, thing)
        link = plain_words(by.pick(["that", "which", ""]).split())
        return determiner + _properties(by, thing, 0.5) + noun + link + other.words + [Word("is"), sup_word] + to, head
    if kind < 0.15:
        lead = plain_words(by.pick(["whichever", "whatever"]).split())
        noun, head = _noun(by, thing) if by.chance(0.6) else ([], sup_word)
        sup_part = plain_words(by.pick(["is", "lies", "stands", "is lying"]).split()) + [sup_word]
        if head is not sup_word:
            sup_word.arc, sup_word.head = "attr", head
        return lead + _properties(by, thing, 0.4) * bool(noun) + noun + sup_part + to + other.words, head
    noun, head = ([one := Word("one", "n")], one) if by.chance(0.25) else _noun(by, thing)
    if kind < 0.3:
        tail = to + other.words if other.heads or by.chance(0.5) else []
        return determiner + [sup_word] + _properties(by, thing, 0.4) + noun + tail, head
    link = (
        plain_words(
            expand("(that is|which is|that lies|that 's|standing|lying|that sits|which stands|) (the|)", by.rng)
        )
        if by.chance(0.6)
        else []
    )
    return determiner + _properties(by, thing, 0.5) + noun + link + [sup_word] + to + other.words, head


def _related(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    """`the block on the tray`."""
    assert by.relate is not None
    determiner = _determiner(by)
    noun, head = ([one := Word("one", "n")], one) if by.chance(0.2) else _noun(by, thing)
    link = plain_words(
        by.pick(
            [
                "",
                "",
                "that is",
                "which is",
                "that's",
                "lying",
                "sitting",
                "standing",
                "that sits",
                "that lies",
                "currently",
                "which sits",
                "that stands",
            ]
        ).split()
    )
    relation = by.relate(by.pick(["in", "in", "on", "on", "left", "right", "front", "behind", "near"]), depth + 1)
    relation.hang("restr", head)
    return determiner + _properties(by, thing, 0.5) + noun + link + relation.words, head


def _not_colour(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    many = slot == "moved" and by.chance(0.7)
    noun, head = _noun(by, thing, many)
    colour, last = by.span(by.colour_word(thing), "col")
    lead = [Word("all", "all"), Word("the")] if many else _determiner(by)
    if by.chance(0.2):
        second, other = by.span(by.colour_word(by.of_role(slot)), "col")
        negs = [Word("neither", "neg", "mark", last), Word("nor", "neg", "mark", other)]
        link = plain_words(by.pick(["that is", "which is", "that are"]).split())
        return [*lead, *noun, *link, negs[0], *colour, negs[1], *second], head
    not_word = Word(by.pick(["not", "n't", "isn't", "aren't", "isn't"]), "neg", "mark", last)
    if by.chance(0.15):
        not_word.text = "non"
        return [*lead, not_word, *colour, *noun], head
    link = plain_words(by.pick(["that", "which"]).split())
    if not_word.text in ("not", "n't"):
        link.append(Word("are" if many else "is"))
        not_word.text = "not"
    return [*lead, *noun, *link, not_word, *colour], head


def _any(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    noun, head = ([one := Word("one", "n")], one) if by.chance(0.2) else _noun(by, thing)
    if by.chance(0.3):
        noun, head = _noun(by, thing, many=True)
        lead = plain_words(expand("(one/any of|any/any of|either/any of|any/any one of) (the|those|these|my|)", by.rng))
        return lead + _properties(by, thing, 0.6) + noun, head
    if by.chance(0.1):
        lead = plain_words([by.pick(by.told.data["mentions"]["any_lead"])])
        return lead + _properties(by, thing, 0.6) + noun + plain_words(
            ["you", by.pick(["like", "want", "please"])]
        ), head
    article = by.pick(["a", "an", "any", "some", "a", "either", "any old", "one"])
    words = [Word(article.split()[0], "any")] + _properties(by, thing, 0.7) + noun
    if depth == 0 and by.chance(0.1):
        words += plain_words(by.pick(by.told.data["mentions"]["except"]).split())
        out = by.mention(slot, 1, single=True)
        out.hang("except", head)
        return words + out.words, head
    return words + (_not_of_colour(by, thing, head) if by.chance(0.06) else []), head


def _not_of_colour(by: Speaker, thing: Thing, head: Word) -> list[Word]:
    """`so long as it isn't blue`."""
    colour, last = by.span(by.colour_word(thing), "col")
    words = plain_words(expand(by.pick(by.told.data["mentions"]["any_but"]), by.rng))
    words[-1].label, words[-1].arc, words[-1].head = "neg", "mark", last
    return words + colour


def _ident(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    if "_" not in thing.id and not any(map(str.isdigit, thing.id)):
        return _simple(by, thing, depth, slot)
    if by.chance(0.25):
        noun, head = _noun(by, thing)
        return _determiner(by) + _properties(by, thing, 0.6) + noun + [Word(thing.id, "id")], head
    head = Word(thing.id, "id")
    lead = plain_words(by.pick(["", "", "the", "object", "item"]).split())
    return [*lead, head], head


def _size(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    name = by.rng.choice(list(_SIZES))
    size = Word(by.pick(_SIZES[name]), name)
    kind = by.rng.random()
    determiner = _determiner(by)
    if kind < 0.2:
        tail = []
        if by.chance(0.5):
            noun, head = _noun(by, thing, many=True)
            size.arc, size.head = "attr", head
            tail = plain_words(expand("(of|among|out of) (the|) (two/n2|three/n3|)", by.rng))
            return determiner + [size] + tail + _properties(by, thing, 0.5) + noun, head
        return determiner + [size], size
    noun, head = ([one := Word("one", "n")], one) if kind < 0.5 else _noun(by, thing)
    return determiner + [size] + _properties(by, thing, 0.4) + noun, head


def _nth(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    noun, head = _noun(by, thing)
    which = by.pick(["second/nth2", "third/nth3", "2nd/nth2", "3rd/nth3"])
    side = by.rng.choice(["left/s_left", "right/s_right"])
    words = plain_words(["the", which]) + _properties(by, thing, 0.3) + noun
    return words + plain_words(["from", "the", side]), head


def _other(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    if by.chance(0.08):
        return not_but_other(by, slot, depth)
    noun, head = ([one := Word("one", "n")], one) if by.chance(0.5) else _noun(by, thing)
    if by.chance(0.1):
        head = Word("other", "other")
        return [Word("the"), head], head
    lead = plain_words(
        by.pick(
            [
                "the other/other",
                "the other/other",
                "another/other",
                "that other/other",
                "the second/other",
                "the remaining/other",
            ]
        ).split()
    )
    return lead + _properties(by, thing, 0.4) + noun, head


MAKERS = {
    "simple": _simple, "bare": _bare, "pronoun": _pronoun, "universal": _universal, "everything": _everything,
    "except": _except, "rest": _rest, "side": _side, "nearest": _nearest, "related": _related,
    "not_colour": _not_colour, "any": _any, "ident": _ident, "size": _size, "nth": _nth, "other": _other,
}  # fmt: skip
