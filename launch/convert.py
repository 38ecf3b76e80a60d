"""`python -m embodied_launch.convert source= out= layout= task=`: recorded episodes from one layout to another.

Exit codes: 0 written; 2 a user's mistake or a file that cannot be read, one line on stderr; 130 Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from embodied.errors import EmbodiedError

from .keys import help_text, key, light_config

LAYOUTS = ("minari", "robomimic")
_NAME = "convert"
_SUMMARY = "Recorded episodes to the layout of Minari or robomimic."


@dataclass(frozen=True)
class KEYS:
    """What the program may be told."""

    source: str = key("a data set of either layout, or the folder of a training run", literal=True)
    out: str = key("minari: a new folder; robomimic: a new file that ends in .hdf5", literal=True)
    task: str = key("the task of the episodes: one of `embodied list`, or gym:<id>")
    layout: str = key("the layout of what is written", "minari", choices=LAYOUTS)


def convert(source: str, out: str, task: str, layout: str) -> tuple[int, int]:
    """Writes every intact episode of `source` to `out`; what was cut off is told on stderr.

    Returns:
        Episodes and steps written.

    Raises:
        UserError: One line says what is wrong; nothing is left of `out`.
    """
    from embodied.learning.datasets.reader import read_recorded
    from embodied.learning.datasets.recorder import open_recorder
    from robots.goal_layout import goal_layout

    goals = goal_layout(task)
    episodes = read_recorded(source, goals)
    recorder = open_recorder(Path(out), layout, goals)
    steps = 0
    try:
        for recorded in episodes:
            recorder.add(recorded.episode, recorded.seed)
            steps += len(recorded.episode)
        recorder.close()
    except BaseException:
        recorder.discard()
        raise
    return recorder.episodes, steps


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point."""
    words = list(sys.argv[1:] if argv is None else argv)
    if any(word in ("--help", "-h", "help") for word in words):
        print(help_text(_NAME, _SUMMARY, KEYS).replace("embodied convert", "python -m embodied_launch.convert", 1))
        return 0
    try:
        config = light_config(KEYS, words)
        episodes, steps = convert(config.source, config.out, config.task, config.layout)
    except KeyboardInterrupt:
        print("convert: stopped", file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:
        print(
            f"convert: the package '{error.name}' is not installed: pip install 'embodied-control[all]'",
            file=sys.stderr,
        )
        return 2
    except (EmbodiedError, OSError) as error:
        print(f"convert: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    print(
        f"{episodes} episodes ({steps:,} steps) in {config.layout}'s layout\n{Path(config.out).absolute()}", flush=True
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
