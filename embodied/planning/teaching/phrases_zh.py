"""Chinese noun phrases with their parse."""

from __future__ import annotations

from embodied.planning.teaching.markup import Fragment, Word, expand, plain_words
from embodied.planning.teaching.mentions import Made, Speaker, Thing, attribute, not_but_other

WEIGHTS = {
    "simple": 52, "bare": 9, "pronoun": 6, "universal": 9, "everything": 3, "except": 3, "rest": 7, "side": 8,
    "nearest": 6, "related": 5, "not_colour": 2, "any": 3, "ident": 1, "size": 5, "nth": 1, "other": 4,
}  # fmt: skip
_SIDES = {
    "s_left": ["左边/s_left", "左侧/s_left", "最 左边/s_left", "最左边/s_left", "左/s_left", "左手边/s_left"],
    "s_right": ["右边/s_right", "右侧/s_right", "最右边/s_right", "右/s_right", "右手边/s_right"],
    "s_front": ["前面/s_front", "最前面/s_front"],
    "s_back": ["后面/s_back", "最后面/s_back"], "s_middle": ["中间/s_middle"],
}  # fmt: skip
_SIZES = {
    "small": ["小/small", "小/small 的", "较小/small 的", "最小/small 的", "小一点/small 的"],
    "large": ["大/large", "大/large 的", "较大/large 的", "最大/large 的", "大一点/large 的"],
    "tall": ["高/tall 的", "最高/tall 的"], "short": ["矮/short 的", "最矮/short 的"],
}  # fmt: skip


def _noun(by: Speaker, thing: Thing) -> Made:
    return by.span(by.noun_word(thing), "n")


def _colour(by: Speaker, thing: Thing, p: float = 0.8) -> list[Word]:
    if not by.chance(p):
        return []
    return [*by.span(by.colour_word(thing), "col")[0], *([Word("的")] if by.chance(0.45) else [])]


def _properties(by: Speaker, thing: Thing, colour: float = 0.8) -> list[Word]:
    words: list[Word] = []
    if by.chance(0.06):
        words += plain_words(by.pick(_SIZES[by.rng.choice(list(_SIZES))]).split())
    if by.chance(0.012):
        words += [Word(by.pick(by.told.unknown["properties"]), "adj"), Word("的")]
    return words + _colour(by, thing, colour)


def _simple(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    lead = plain_words(by.pick(["", "", "", "", "那 个", "这 个", "那 块", "那"]).split())
    noun, head = _noun(by, thing)
    return lead + _properties(by, thing) + noun, head


def _bare(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    colour, head = by.span(by.colour_word(thing), "col")
    if by.chance(0.3):
        return colour, head
    lead = plain_words(by.pick(["", "", "那 个"]).split())
    size = plain_words(by.pick(_SIZES["small"] + _SIZES["large"]).split()) if by.chance(0.08) else []
    return lead + size + colour + plain_words(by.pick(["的", "的", "那 个", "的 那 个"]).split()), head


def _pronoun(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    if slot in ("zone", "under", "beside", "goal") and by.chance(0.4):
        head = Word(by.pick(["那里", "那儿"]), "there")
        return [head], head
    head = Word(by.pick(["它", "它", "它们"]), "pron")
    if by.chance(0.15):
        both = Word("两", "both")
        return [head, both, Word("个")], head
    return [head], head


def _universal(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    noun, head = _noun(by, thing)
    lead = plain_words(
        expand(
            by.pick(
                [
                    "所有/all (的|)",
                    "全部/all (的|)",
                    "每/all 个",
                    "两/n2 (个|块)",
                    "三/n3 (个|块)",
                    "这 两/n2 个",
                    "这 三/n3 个",
                    "每/all 一 (个|块)",
                    "那 两/n2 个",
                    "所有/all 这些",
                ]
            ),
            by.rng,
        )
    )
    if by.chance(0.2):
        # 红色 的 两 个 都
        lead = plain_words(expand("(两/n2|俩/n2|三/n3) (个|块|) (都|全|)", by.rng))
        named = noun if by.chance(0.5) else []
        told = by.span(by.colour_word(thing), "col")
        head = head if named else told[1]
        return [*told[0], *([Word("的")] if by.chance(0.7) else []), *named, *lead], head
    words = lead + _properties(by, thing, 0.5) + noun
    if by.chance(0.35):
        words += [Word("都", "all" if not any(w.label in ("all", "n2", "n3") for w in lead) else "nil")]
    elif by.chance(0.1):
        words = words[len(lead) :] + [Word("都", "all")]
    elif by.chance(0.1):
        words = words[len(lead) :] + [Word("全", "nil"), Word("都", "all")]
    return words, head


def _everything(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    if by.chance(0.5):
        noun, head = by.span(by.pick(["东西", "物体", "物品"]), "n")
        return plain_words(expand("(所有/all (的|)|全部/all (的|)|一切/all|每/all 样)", by.rng)) + _colour(
            by, thing, 0.3
        ) + noun, head
    head = Word(by.pick(["全部", "一切", "所有"]), "all")
    return [head, *plain_words(["的"] if head.text == "所有" else [])], head


def _except(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    words, head = _everything(by, thing, depth, slot) if by.chance(0.45) else _universal(by, thing, depth, slot)
    attribute(head, words)
    out = by.mentions(slot, depth + 1)
    out.hang("except", head)
    tail = plain_words(expand("(以外|之外|外|) (的|,|)", by.rng))
    return [*plain_words(by.pick(["除了", "除", "除去"]).split()), *out.words, *tail, *words], head


def _rest(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    lead = plain_words(expand(by.pick(by.told.data["mentions"]["rest"]), by.rng))
    noun, head = _noun(by, thing) if by.chance(0.6) else by.span("东西", "n")
    if by.chance(0.3):
        noun, head = [], next(word for word in lead if word.label == "other")
    both = [Word("都", "all")] if by.chance(0.3) else []
    if by.chance(0.45):
        out = by.mentions(slot, depth + 1)
        out.hang("except", head)
        tail = plain_words(expand("(以外|之外|外|) (,|,|)", by.rng))
        return [*plain_words(by.pick(["除了", "除", "除去"]).split()), *out.words, *tail, *lead, *noun, *both], head
    if both:
        return lead + noun + both, head
    return lead + noun, head


def _side(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    side = by.rng.choices(list(_SIDES), [8, 8, 2, 2, 2])[0]
    lead = plain_words(by.pick(_SIDES[side]).split())
    of = plain_words(by.pick(["的", "的", "", "那 个", "的 那 个"]).split())
    if by.chance(0.15):
        return lead + (of or [Word("的")]), next(word for word in lead if word.label == side)
    noun, head = _noun(by, thing)
    return lead + of + _properties(by, thing, 0.4) + noun, head


def _nearest(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    far = by.chance(0.25)
    how = ["最远", "最远", "较远", "远", "更远"] if far else ["最近", "最近", "近", "更近", "较近"]
    sup = Word(by.pick(how), "sup_far" if far else "sup_near")
    other = (
        by.mention("any", depth + 1, single=True)
        if by.chance(0.88)
        else Fragment([Word(by.pick(["你", "机器人", "我"]))])
    )
    other.hang("ground", sup)
    if not far and by.chance(0.25):
        close = Word("靠近", sup.label)
        other = Fragment(other.words, other.heads)
        for word in other.heads:
            word.head = close
        words = [Word("最"), close, *other.words, Word("的")]
        sup = close
    else:
        words = [Word(by.pick(["离", "离", "距离", "距", "靠", "挨"])), *other.words, sup, Word("的")]
    if by.chance(0.2):
        return words + plain_words(by.pick(["", "那 个"]).split()), sup
    noun, head = _noun(by, thing)
    return words + plain_words(by.pick(["", "", "那 个"]).split()) + _properties(by, thing, 0.5) + noun, head


def _related(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    assert by.relate is not None
    noun, head = _noun(by, thing)
    relation = by.relate(by.pick(["in", "in", "on", "on", "left", "right", "front", "behind", "near"]), depth + 1)
    relation.hang("restr", head)
    return [
        *relation.words,
        *plain_words(by.pick(["的", "的", "的 那 个", "那 个"]).split()),
        *_properties(by, thing, 0.5),
        *noun,
    ], head


def _not_colour(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    noun, head = _noun(by, thing) if by.chance(0.6) else by.span("东西", "n")
    colour, last = by.span(by.colour_word(thing), "col")
    lead = plain_words(expand("(所有/all|)", by.rng)) if slot == "moved" else []
    if by.chance(0.3):
        return [*lead, Word("非", "neg", "mark", last), *colour, *noun], head
    return [*lead, Word("不", "neg", "mark", last), Word("是"), *colour, Word("的"), *noun], head


def _any(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    noun, head = _noun(by, thing)
    return plain_words(
        expand(
            "(个/any|一/any 样|一/any (个|块|只)|任意/any (一 个|)|随便/any (一 个|哪个)|任何/any 一 个|某/any 个)",
            by.rng,
        )
    ) + _properties(by, thing) + noun, head


def _ident(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    if "_" not in thing.id and not any(map(str.isdigit, thing.id)):
        return _simple(by, thing, depth, slot)
    head = Word(thing.id, "id")
    return [Word(" "), head, Word(" ")], head


def _size(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    words = plain_words(by.pick(_SIZES[by.rng.choice(list(_SIZES))]).split())
    if by.chance(0.2):
        return words + plain_words(["那", "个"]), words[0]
    noun, head = _noun(by, thing)
    return words + _colour(by, thing, 0.4) + noun, head


def _nth(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    noun, head = _noun(by, thing)
    side = by.rng.choice(["左/s_left", "右/s_right"])
    return plain_words(["从", side, "数", by.pick(["第二/nth2", "第三/nth3"]), "个"]) + _colour(
        by, thing, 0.3
    ) + noun, head


def _other(by: Speaker, thing: Thing, depth: int, slot: str) -> Made:
    if by.chance(0.08):
        return not_but_other(by, slot, depth)
    lead = plain_words(expand("另/other (一|外) (个|块)", by.rng))
    if by.chance(0.3):
        return lead, next(word for word in lead if word.label == "other")
    noun, head = _noun(by, thing)
    return lead + _colour(by, thing, 0.4) + noun, head


MAKERS = {
    "simple": _simple, "bare": _bare, "pronoun": _pronoun, "universal": _universal, "everything": _everything,
    "except": _except, "rest": _rest, "side": _side, "nearest": _nearest, "related": _related,
    "not_colour": _not_colour, "any": _any, "ident": _ident, "size": _size, "nth": _nth, "other": _other,
}  # fmt: skip
