"""The words that the rules planner knows, as data. What is not listed here is not understood, and said so."""

from __future__ import annotations

COLOURS: dict[str, str] = {
    **{name: name for name in (
        "red", "orange", "yellow", "green", "teal", "blue", "purple", "pink", "brown", "white", "grey", "black",
    )},
    "crimson": "red", "scarlet": "red", "ruby": "red", "amber": "orange", "lime": "green", "emerald": "green",
    "turquoise": "teal", "cyan": "teal", "navy": "blue", "azure": "blue", "violet": "purple", "magenta": "purple",
    "gray": "grey",
}  # fmt: skip

KINDS: dict[str, str] = {
    "block": "block", "cube": "block", "box": "block", "brick": "block",
    "cylinder": "cylinder", "can": "cylinder", "tube": "cylinder",
    "ball": "ball", "sphere": "ball", "marble": "ball",
    "tray": "tray", "bin": "tray", "container": "tray",
    "disc": "disc", "disk": "disc", "circle": "disc", "plate": "plate",
    "pillar": "pillar", "column": "pillar", "post": "pillar",
    "wall": "wall", "door": "door", "table": "table", "desk": "table",
}  # fmt: skip
ANYTHING = frozenset({"thing", "object", "item", "one"})
"""Nouns that fit every kind."""
PLURALS: dict[str, str] = {
    **{kind + "s": kind for kind in (*KINDS, *ANYTHING) if not kind.endswith("x")},
    "boxes": "box",
}

SIZES: dict[str, int] = {
    "small": -1, "smaller": -1, "smallest": -1, "little": -1, "tiny": -1,
    "big": 1, "bigger": 1, "biggest": 1, "large": 1, "larger": 1, "largest": 1,
}  # fmt: skip
SIDES: dict[str, str] = {
    "left": "left", "leftmost": "left", "left-hand": "left", "right": "right", "rightmost": "right",
    "right-hand": "right",
}  # fmt: skip
DEFINITE = frozenset({"the", "this", "that", "my", "your"})
INDEFINITE = frozenset({"a", "an", "any"})
UNIVERSAL = frozenset({"all", "every", "each"})
EVERYTHING = frozenset({"everything"})
PRONOUNS = frozenset({"it", "them"})
COUNTS: dict[str, int] = {"both": 2, "two": 2, "three": 3, "four": 4, "five": 5}
CLOSEST = frozenset({"closest", "nearest"})

VERBS: dict[str, str] = {
    "touch": "touch", "tap": "touch", "press": "touch", "poke": "touch",
    "reach": "reach", "reach for": "reach", "reach to": "reach", "hover above": "reach", "hover over": "reach",
    "move to": "reach", "move above": "reach", "move over": "reach", "go above": "reach", "go over": "reach",
    "move the gripper to": "reach", "move the gripper above": "reach", "move the gripper over": "reach",
    "move your gripper to": "reach", "move your gripper above": "reach", "move your gripper over": "reach",
    "pick up": "pick", "pick": "pick", "grasp": "pick", "grab": "pick", "lift": "pick", "lift up": "pick",
    "take": "pick",
    "put": "put", "place": "put", "move": "put", "bring": "put", "set": "put", "lay": "put", "drop": "put",
    "carry": "put", "transfer": "put",
    "push": "push", "slide": "push", "shove": "push", "nudge": "push",
    "stack": "stack", "pile": "stack",
    "clear": "clear", "empty": "clear",
    "go to": "go", "go back to": "go", "drive to": "go", "drive back to": "go", "navigate to": "go", "visit": "go",
    "inspect": "go", "come to": "go", "come back to": "go", "return to": "go", "head to": "go", "travel to": "go",
    "open": "open", "close": "close", "shut": "close", "turn": "turn",
    "hold": "hold", "hold still": "hold", "stay": "hold", "stay still": "hold", "stand still": "hold",
    "wait": "hold", "do nothing": "hold",
    "build a tower": "tower", "make a tower": "tower", "build a stack": "tower", "make a stack": "tower",
}  # fmt: skip
"""Phrases and the family of skills that they mean; the longest match counts."""

PREPOSITIONS: dict[str, str] = {
    "in": "in", "into": "in", "inside": "in", "on": "on", "onto": "on", "on to": "on", "on top of": "on",
    "atop": "on", "to": "to",
    "left of": "left_of", "to the left of": "left_of", "on the left of": "left_of", "on the left side of": "left_of",
    "to the left side of": "left_of",
    "right of": "right_of", "to the right of": "right_of", "on the right of": "right_of",
    "on the right side of": "right_of", "to the right side of": "right_of",
    "in front of": "in_front_of", "behind": "behind",
    "next to": "near", "beside": "near", "near": "near", "near to": "near", "close to": "near",
}  # fmt: skip

SEPARATORS: dict[str, bool] = {
    ",": False, ";": False, ".": False, "!": False, "?": False, ":": False, "and": False, "but": False,
    "then": True, "and then": True, "afterwards": True, "after that": True, "next": True, "finally": True,
    "later": True, "first": False,
}  # fmt: skip
"""Words between clauses, and whether what follows comes later in time."""
FILLERS: tuple[str, ...] = (
    "please", "kindly", "now", "also", "just", "could you", "can you", "would you", "will you", "you should",
    "you must", "i want you to", "i would like you to", "sort :",
)  # fmt: skip
TRAILERS: tuple[str, ...] = ("too", "as well", "also", "please", "now")
"""Words that may end a clause and say nothing that changes it."""
COPULAS: tuple[str, ...] = ("goes", "go", "belongs", "belong", "should go", "must go", "should be", "must be")
"""What may stand between a thing and its place: `everything else goes into the tray`."""
FORBIDDING: tuple[str, ...] = (
    "don't touch", "do not touch", "never touch", "without touching", "don't move", "do not move", "never move",
    "without moving", "avoid touching", "avoid moving", "avoid", "not",
)  # fmt: skip
HARMLESS: tuple[str, ...] = (
    "not through a wall", "not through the wall", "not through the walls", "not through walls",
    "not through any wall",
)  # fmt: skip
"""Conditions that the world itself sees to."""
EXCEPT: tuple[str, ...] = ("except for", "except", "apart from", "but not", "but")
THAT_IS: tuple[str, ...] = ("that is", "that are", "which is", "which are", "that's")
