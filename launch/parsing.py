"""The embedded planner put together, and its fit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embodied.errors import UserError

if TYPE_CHECKING:
    from embodied.planning.embedded import EmbeddedPlanner
    from embodied.text_encoder import TextEncoder

    from .distilling import Lessons


@dataclass(frozen=True)
class ParserFitSettings:
    """How much is taught, and how long."""

    sentences: int = 280_000
    """Taught sentences."""
    passes: int = 2
    """Over all of them."""
    closing: int = 60_000
    """Sentences of a last pass with all templates, after sureness was chosen on those kept from the fit."""
    judged: int = 800
    """Sentences that sureness is chosen on, and as many for each row of the card."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise UserError(f"parser.{name}={value}: must be at least 1")


class ShippedVocabulary:
    """The describers' vocabulary as `embodied.planning.parser.known_names.Vocabulary`."""

    def __init__(self, encoder: TextEncoder) -> None:
        from vlm_describer.words import Words, WordsConfig

        self._listed = Words(encoder=encoder, config=WordsConfig(nearest=False))
        self._full = Words(encoder=encoder)

    def colour(self, text: str, listed: bool) -> str | None:
        return (self._listed if listed else self._full).colour(text).name

    def kind(self, text: str, listed: bool) -> str | None:
        return (self._listed if listed else self._full).kind(text).name


@cache
def shared_encoder() -> TextEncoder:
    """One encoder for all planners of a process: its weights are read once."""
    from embodied.text_encoder import TextEncoder

    return TextEncoder()


@cache
def make_embedded(folder: Path | None = None) -> EmbeddedPlanner:
    """The embedded planner with the shipped vocabulary; with the shipped weights where no folder is given.

    A planner remembers nothing of what it planned, so a process has one for each folder.

    Raises:
        UserError: torch or the sentence encoder's package is missing.
        IntegrityError: The weights are damaged.
    """
    return _made(folder)


def _made(folder: Path | None) -> EmbeddedPlanner:
    from embodied.planning.embedded import EmbeddedPlanner

    from . import build

    build.one_thread()
    encoder = shared_encoder()
    return EmbeddedPlanner(folder, encoder, ShippedVocabulary(encoder))


def fit_embedded(
    folder: Path,
    settings: ParserFitSettings,
    seed: int,
    about: Mapping[str, Any],
    lessons: Lessons | None = None,
) -> dict[str, Any]:
    """Fits the parser into `folder`/model, unless that was done; its card.

    Args:
        folder: For sentences, states and the model.
        settings: How much, how long.
        seed: Root of every random number.
        about: What made it, for the card.
        lessons: A larger model's, for the closing pass.
    """
    from embodied.planning.parser.features import Features
    from embodied.planning.parser.known_names import KnownNames
    from embodied.planning.parser.model import CARD, load, save
    from embodied.planning.teaching.fit import CLOSED, FitParserConfig, close_parser, fit_parser
    from embodied.planning.teaching.judge import report

    from . import build
    from .fitting import bar

    build.one_thread()
    if (folder / "model" / CARD).exists() and CLOSED in (card := load(folder / "model").card):
        return card
    if lessons is not None:
        lessons.check()
    encoder = shared_encoder()
    part = min(FitParserConfig.part, settings.sentences)
    config = FitParserConfig(settings.sentences, part, passes=settings.passes, closing=settings.closing, seed=seed)
    names = KnownNames(ShippedVocabulary(encoder), listed=True)
    with bar() as progress:
        network, taught, numbers = fit_parser(folder, config, names, encoder, progress)
        card = {"data": {"seed": seed, **about}, **numbers}
        rows = Features(taught, names, encoder).rows(taught)
        save(network, taught, folder / "model", card, rows)
        begun = time.process_time()
        progress("judging", 0.0)
        card |= report(_made(folder / "model"), seed, settings.judged)
        card["judged_cpu_s"] = round(time.process_time() - begun, 1)
        further: list[Path] = []
        if lessons is not None:
            further, card["teacher"] = lessons.written(_made(folder / "model"), folder, progress)
        card |= close_parser(folder, config, (network, taught), names, encoder, progress, further)
        save(network, taught, folder / "model", card, rows)
    return load(folder / "model").card
