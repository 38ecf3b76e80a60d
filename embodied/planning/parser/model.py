"""The fitted parser as a whole: from a text to tokens and their parse; weights on disk."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embodied.errors import IntegrityError
from embodied.planning.parser.decode import Parse, decode, likelihood
from embodied.planning.parser.features import Encoder, Features, Names, TokenRows, token_keys
from embodied.planning.parser.grammar import NIL, SENTENCES
from embodied.planning.parser.tokens import Spelling, Token, plain, tokenize
from embodied.planning.words import Refused

MAX_TOKENS = 150
_SIDES = ("left", "right", "front", "behind", "middle", "bottom")
"""Words that are meant, beside colours and things, where a slip of spelling leaves a choice."""
INSTRUCTION = "instruction"
"""The kind of sentence that is planned."""
WEIGHTS, KNOWN, CARD, WORDS = "model.safetensors", "known.safetensors", "card.json", "words.txt"
SHIPPED = Path(__file__).resolve().parent.parent / "weights" / "embedded"


@dataclass(frozen=True)
class Read:
    """A text as it was understood."""

    tokens: tuple[Token, ...]
    words: tuple[str, ...]
    """The tokens' texts, slips of spelling put right, ids as they are written."""
    parse: Parse
    kind: str
    kind_probability: float


@dataclass(frozen=True)
class _Scored:
    """What the network has to say of a text."""

    tokens: tuple[Token, ...]
    words: tuple[str, ...]
    logs: list[NDArray[np.float64]]
    """As `decode` takes them."""
    kinds: NDArray[np.float64]

    def read(self, parse: Parse, kind: str, probability: float) -> Read:
        return Read(self.tokens, self.words, parse, kind, probability)


def silenced(read: Read) -> Read:
    """The same text as one that asks for nothing."""
    count = len(read.words)
    return replace(read, parse=Parse((NIL,) * count, ("",) * count, (-1,) * count, (0.0,) * count))


def joined(reads: Sequence[Read]) -> Read:
    """Texts that follow upon each other as one, each with its own parse."""
    heads: list[int] = []
    for read in reads:
        before = len(heads)
        heads += [head if head < 0 else head + before for head in read.parse.heads]
    labels, arcs, logs = (
        tuple(item for read in reads for item in getattr(read.parse, name)) for name in ("labels", "arcs", "log_each")
    )
    words, tokens = (tuple(item for read in reads for item in getattr(read, name)) for name in ("words", "tokens"))
    return Read(tokens, words, Parse(labels, arcs, tuple(heads), logs), "instruction", 1.0)


class Parser:
    """Reads texts with a fitted network.

    Args:
        network: A `ParserNetwork`.
        taught: The words that it was taught, in their order.
        names: The vocabulary.
        encoder: MiniLM, or None.
        han: Chinese words that texts are cut into.
        real: Words that are no slips of spelling although they were not taught.
        stored: Rows of the taught words; computed anew where omitted.
    """

    def __init__(
        self, network: Any, taught: Sequence[str], names: Names, encoder: Encoder | None, han: Collection[str],
        real: Collection[str] = (), stored: TokenRows | None = None,
    ) -> None:  # fmt: skip
        rows = stored if stored is not None else Features(taught, names, encoder).rows(taught)
        self.features = Features(taught, names, encoder, rows)
        self._network, self._han, self._names = network.eval(), han, names
        rows_of = frozenset(taught)
        content = [word for word, flags in zip(taught, rows.flags, strict=True) if flags[0] or flags[1]]
        content += [word for word in _SIDES if word in rows_of]
        self.spelling = Spelling(taught, real, content)

    def read(self, text: str, ids: Collection[str]) -> Read:
        """The best parse of a text in a scene with things of these ids.

        Raises:
            Refused: `unparsable`: no word at all, or too many.
        """
        scored = self._scored(text, ids)
        kind = int(np.argmax(scored.kinds))
        return scored.read(decode(*scored.logs), SENTENCES[kind], float(scored.kinds[kind]))

    def readings(
        self, text: str, ids: Collection[str], count: int, heat: float, rng: np.random.Generator
    ) -> Iterator[Read]:
        """Parses that the text may have as an instruction, the best first, each once.

        The others are the best after noise was added to all scores (perturb and MAP: Papandreou and Yuille 2011,
        "Perturb-and-MAP Random Fields"); their probabilities are those without it.

        Args:
            text: As for `read`.
            ids: As for `read`.
            count: How often noise is drawn; repeated parses are left out.
            heat: Scale of the Gumbel noise.
            rng: Draws it.

        Raises:
            Refused: As `read`.
        """
        scored, seen = self._scored(text, ids), set()
        for draw in range(count + 1):
            noisy = [log + heat * rng.gumbel(size=log.shape) if draw else log for log in scored.logs]
            parse = likelihood(decode(*noisy), *scored.logs)
            told = (parse.labels, parse.arcs, parse.heads)
            if told not in seen:
                seen.add(told)
                yield scored.read(parse, INSTRUCTION, float(scored.kinds[SENTENCES.index(INSTRUCTION)]))

    def _scored(self, text: str, ids: Collection[str]) -> _Scored:
        import torch

        from embodied.planning.parser.network import Inputs

        tokens = tokenize(plain(text), self._han, ids)
        if not any(any(map(str.isalnum, token.text)) for token in tokens):
            raise Refused("unparsable", "the instruction is empty; say for instance: touch the red block")
        if len(tokens) > MAX_TOKENS:
            raise Refused("unparsable", f"the instruction is longer than {MAX_TOKENS} words; say it in fewer words")
        words = [t.text if t.text in ids else self._right(t.text) for t in tokens]
        rows = self.features.rows(token_keys(words, ids))
        with torch.inference_mode():
            mask = torch.ones(1, len(words), dtype=torch.bool)
            words_in, pieces, flags, vectors = as_tensors(rows)
            scores = self._network(Inputs(words_in, pieces, flags, vectors, torch.arange(len(words))[None], mask))
            arcs = self._network.arcs(scores.below[0, :, None], scores.above[0, None])
            logs = [part.double().log_softmax(-1).numpy() for part in (scores.labels[0], scores.heads[0], arcs)]
            kinds = scores.kinds[0].double().softmax(-1).numpy()
        return _Scored(tuple(tokens), tuple(words), logs, kinds)

    def _right(self, word: str) -> str:
        if self.features.taught(word):
            return word
        known = self._names.colour(word) is not None or self._names.kind(word) is not None
        return word if known else self.spelling.right(word)


def as_tensors(rows: TokenRows) -> list[Any]:
    import torch

    return [
        torch.from_numpy(np.ascontiguousarray(part)) for part in (rows.words, rows.pieces, rows.flags, rows.vectors)
    ]


def save(network: Any, taught: Sequence[str], folder: Path, card: dict[str, Any], rows: TokenRows) -> None:
    """Weights in half precision, the taught words with what is known of them, and the card.

    Args:
        rows: Of the taught words, in their order.
    """
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / (WEIGHTS + ".partial")
    save_file({name: value.half().contiguous() for name, value in network.state_dict().items()}, partial)
    partial.replace(folder / WEIGHTS)
    known = {"flags": torch.from_numpy(rows.flags).half(), "vectors": torch.from_numpy(rows.vectors).half()}
    save_file(known, folder / KNOWN)
    (folder / WORDS).write_text("\n".join(taught) + "\n", "utf-8")
    about = {"network": asdict(network.config), **card}
    (folder / CARD).write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", "utf-8")


@dataclass(frozen=True)
class Loaded:
    """What a folder of weights holds."""

    network: Any
    taught: list[str]
    known: TokenRows
    """Of the taught words."""
    card: dict[str, Any]


def load(folder: Path) -> Loaded:
    """The fitted parser in a folder.

    Raises:
        IntegrityError: A file is missing, damaged or of another version.
    """
    from safetensors.torch import load_file

    from embodied.planning.parser.network import NetworkConfig, ParserNetwork

    try:
        card = json.loads((folder / CARD).read_text("utf-8"))
        taught = (folder / WORDS).read_text("utf-8").split("\n")[:-1]
        network = ParserNetwork(NetworkConfig(**card["network"]))
        network.load_state_dict({name: value.float() for name, value in load_file(folder / WEIGHTS).items()})
        known = {name: value.float().numpy() for name, value in load_file(folder / KNOWN).items()}
        count = len(taught)
        none = np.zeros((count, 0), np.int64)
        rows = TokenRows(np.arange(1, count + 1), none, known["flags"], known["vectors"])
        if len(rows.flags) != count or len(rows.vectors) != count:
            raise ValueError("not as many words as rows")
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise IntegrityError(
            f"the planner's weights in '{folder}' cannot be used ({type(error).__name__}); fit them again with "
            "embodied fit planner=embedded"
        ) from error
    return Loaded(network, taught, rows, card)
