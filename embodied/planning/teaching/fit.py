"""The fit of the embedded planner's parser: taught sentences on disk, part by part, then passes over them."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embodied.errors import IntegrityError
from embodied.planning.parser.features import Encoder, Features, Names, token_keys
from embodied.planning.parser.grammar import ARC_INDEX, LABEL_INDEX, SENTENCES
from embodied.planning.teaching.scenes import draw_scene, things_of
from embodied.planning.teaching.sentences import Taught, Teacher
from embodied.planning.teaching.wordings import lexicon

Progress = Callable[[str, float], None]
IGNORED = -100
CLOSED = "closing_sentences"
"""A card with this number is of a fit that is over."""
LESSON_VISITS = 5
"""How often the closing pass sees a sentence that a larger planner gave: there are few, of many kinds."""


@dataclass(frozen=True)
class FitParserConfig:
    """How much is taught, and how."""

    sentences: int = 280_000
    part: int = 4_000
    """Sentences of a file."""
    chinese: float = 0.27
    passes: int = 2
    closing: int = 60_000
    """Sentences of the closing pass, in which all templates are taught: those too that calibration was kept for."""
    closing_rate: float = 1e-3
    batch: int = 64
    rate: float = 3e-3
    weight_decay: float = 0.01
    word_dropout: float = 0.12
    """How often a taught word is shown as one that was not, so that spelling and MiniLM are learned from."""
    vector_dropout: float = 0.05
    """How often MiniLM's vector is left out."""
    seed: int = 0


@dataclass
class Corpus:
    """Taught sentences as numbers; rows of `texts` are distinct tokens."""

    texts: list[str]
    tokens: list[NDArray[np.int64]]
    labels: list[NDArray[np.int64]]
    heads: list[NDArray[np.int64]]
    """0 for the root; -100 where a token says nothing."""
    arcs: list[NDArray[np.int64]]
    kinds: list[int]


def taught_sentences(config: FitParserConfig, part: int, held_out: bool | None = False) -> Iterator[Taught]:
    """The sentences of a part; each part has a seed of its own."""
    rng = random.Random(f"{config.seed}/{part}/{held_out}")
    teacher = Teacher(rng, held_out)
    made = 0
    while made < config.part:
        things = things_of(draw_scene(rng))
        sentence = teacher.sentence(things, "zh" if rng.random() < config.chinese else "en")
        if sentence is not None and len(sentence.tokens) <= 70:
            made += 1
            yield sentence


def write_parts(folder: Path, config: FitParserConfig, progress: Progress, held_out: bool | None = False) -> list[Path]:
    """Files of sentences, as far as they are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    count = max(1, (config.closing if held_out is None else config.sentences) // config.part)
    name = "closing" if held_out is None else "part"
    paths = [folder / f"{name}-{config.seed}-{config.part}-{i}.jsonl" for i in range(count)]
    for i, path in enumerate(paths):
        progress("writing sentences", i / count)
        if path.exists():
            continue
        partial = path.with_suffix(".partial")
        with partial.open("w", encoding="utf-8") as file:
            for sentence in taught_sentences(config, i, held_out):
                file.write(record(sentence))
        partial.replace(path)
    return paths


def record(sentence: Taught) -> str:
    """A sentence as a line of a file that `read_corpus` reads."""
    ids = {t.text for t, label in zip(sentence.tokens, sentence.labels, strict=True) if label == "id"}
    keys = token_keys([t.text for t in sentence.tokens], ids)
    parts = [keys, sentence.labels, sentence.heads, sentence.arcs, sentence.kind]
    return json.dumps(parts, ensure_ascii=False) + "\n"


def read_corpus(paths: Sequence[Path]) -> Corpus:
    """The sentences of the files."""
    rows: dict[str, int] = {}
    corpus = Corpus([], [], [], [], [], [])
    for path in paths:
        for line in path.read_text("utf-8").splitlines():
            keys, labels, heads, arcs, kind = json.loads(line)
            if not keys:
                continue
            corpus.tokens.append(np.array([rows.setdefault(key, len(rows)) for key in keys], np.int64))
            said = np.array([label != "nil" for label in labels])
            corpus.labels.append(np.array([LABEL_INDEX[label] for label in labels], np.int64))
            corpus.heads.append(np.where(said, np.array(heads, np.int64) + 1, IGNORED))
            corpus.arcs.append(np.array([ARC_INDEX[arc] if arc else IGNORED for arc in arcs], np.int64))
            corpus.kinds.append(SENTENCES.index(kind))
    corpus.texts = list(rows)
    return corpus


def fit_parser(
    folder: Path, config: FitParserConfig, names: Names, encoder: Encoder | None, progress: Progress
) -> tuple[Any, list[str], dict[str, Any]]:
    """(network, taught words, numbers for the card). What lies in `folder` already is taken up."""
    import torch

    from embodied.planning.parser.network import NetworkConfig, ParserNetwork

    begun = time.process_time()
    torch.manual_seed(config.seed)
    taught = sorted(lexicon())
    corpus = read_corpus(write_parts(folder / "sentences", config, progress))
    features = Features(taught, names, encoder)
    progress("looking words up", 0.0)
    rows = [torch.from_numpy(part) for part in _rows(features, corpus.texts)]
    network = ParserNetwork(NetworkConfig(words=len(taught)))
    optimiser = torch.optim.AdamW(
        network.parameters(), config.rate, betas=(0.9, 0.98), weight_decay=config.weight_decay, fused=True
    )
    state = folder / "state.safetensors"
    done = _restore(state, network, optimiser) if state.exists() else 0
    for epoch in range(done, config.passes):
        _pass(network, optimiser, corpus, rows, config, epoch, progress)
        _keep(state, network, optimiser, epoch + 1)
    seconds = time.process_time() - begun
    return (
        network.eval(),
        taught,
        {"sentences": len(corpus.tokens), "words": len(corpus.texts), "fit_cpu_s": round(seconds, 1)},
    )


def close_parser(
    folder: Path,
    config: FitParserConfig,
    fitted: tuple[Any, list[str]],
    names: Names,
    encoder: Encoder | None,
    progress: Progress,
    lessons: Sequence[Path] = (),
) -> dict[str, Any]:
    """The closing pass over a fitted (network, taught words), in place; numbers for the card.

    Args:
        folder: Of the fit.
        config: Of the fit.
        fitted: Network and taught words.
        names: The vocabulary.
        encoder: MiniLM, or None.
        progress: Told what is done.
        lessons: Files of further sentences, each seen `LESSON_VISITS` times.
    """
    import torch

    begun = time.process_time()
    network, taught = fitted
    parts = write_parts(folder / "sentences", config, progress, held_out=None)
    corpus = read_corpus([*parts, *LESSON_VISITS * list(lessons)])
    rows = [torch.from_numpy(part) for part in _rows(Features(taught, names, encoder), corpus.texts)]
    optimiser = torch.optim.AdamW(network.parameters(), config.closing_rate, weight_decay=config.weight_decay)
    once = replace(config, passes=1, rate=config.closing_rate, seed=config.seed + 1)
    _pass(network, optimiser, corpus, rows, once, 0, progress)
    network.eval()
    return {CLOSED: len(corpus.tokens), "closing_cpu_s": round(time.process_time() - begun, 1)}


def _rows(features: Features, texts: list[str]) -> list[NDArray[Any]]:
    parts = [features.rows(texts[i : i + 512]) for i in range(0, len(texts), 512)]
    return [np.concatenate([getattr(part, name) for part in parts]) for name in ("words", "pieces", "flags", "vectors")]


def _pass(
    network: Any,
    optimiser: Any,
    corpus: Corpus,
    rows: list[Any],
    config: FitParserConfig,
    epoch: int,
    progress: Progress,
) -> None:
    """One pass over all sentences, those of like length together."""
    import torch

    rng = np.random.default_rng((config.seed, epoch))
    torch.manual_seed(config.seed * 1000 + epoch)
    batches = _batches(corpus, config.batch, rng)
    network.train()
    mean = 0.0
    for number, chosen in enumerate(batches):
        step, steps = epoch * len(batches) + number, config.passes * len(batches)
        for group in optimiser.param_groups:
            group["lr"] = rate_at(step, steps, config.rate)
        loss = _loss(network, corpus, rows, chosen, config, rng)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        mean += (float(loss.detach()) - mean) * max(0.02, 1 / (number + 1))
        progress(f"pass {epoch + 1} of {config.passes}, loss {mean:.3f}", number / len(batches))


def rate_at(step: int, steps: int, highest: float) -> float:
    """A learning rate that rises over a twentieth of the steps and falls to 0 in a straight line."""
    warm = max(1, steps // 20)
    return highest * (step + 1) / warm if step < warm else highest * (steps - step) / max(1, steps - warm)


def _batches(corpus: Corpus, size: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    lengths = np.array([len(tokens) for tokens in corpus.tokens]) + rng.uniform(0, 3, len(corpus.tokens))
    order = np.argsort(lengths)
    batches = [order[i : i + size] for i in range(0, len(order), size)]
    rng.shuffle(batches)  # type: ignore[arg-type]
    return batches


def _padded(items: Sequence[NDArray[np.int64]], fill: int) -> NDArray[np.int64]:
    out = np.full((len(items), max(map(len, items))), fill, np.int64)
    for row, item in zip(out, items, strict=True):
        row[: len(item)] = item
    return out


def _loss(
    network: Any,
    corpus: Corpus,
    rows: list[Any],
    chosen: NDArray[np.int64],
    config: FitParserConfig,
    rng: np.random.Generator,
) -> Any:
    import torch
    from torch.nn.functional import cross_entropy

    from embodied.planning.parser.network import Inputs

    tokens = torch.from_numpy(_padded([corpus.tokens[i] for i in chosen], -1))
    labels, heads, arcs = (
        torch.from_numpy(_padded([part[i] for i in chosen], IGNORED))
        for part in (corpus.labels, corpus.heads, corpus.arcs)
    )
    mask = tokens >= 0
    left_out = torch.from_numpy(rng.random(tokens.shape) < config.word_dropout) & mask
    distinct, place = torch.unique(2 * tokens.clamp(min=0) + left_out, return_inverse=True)
    words, pieces, flags, vectors = (part[distinct // 2] for part in rows)
    kept = distinct % 2 == 0
    flags[:, -1] *= kept
    seen = torch.from_numpy(rng.random(len(distinct)) >= config.vector_dropout)
    scores = network(Inputs(words * kept, pieces, flags, vectors * seen.unsqueeze(-1), place, mask))
    loss = cross_entropy(scores.labels.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
    loss = loss + cross_entropy(scores.heads.flatten(0, 1), heads.flatten(), ignore_index=IGNORED)
    said = heads != IGNORED
    above = scores.above.gather(1, heads.clamp(min=0).unsqueeze(-1).expand(-1, -1, scores.above.shape[-1]))
    loss = loss + cross_entropy(network.arcs(scores.below[said], above[said]), arcs[said])
    kinds = torch.tensor([corpus.kinds[i] for i in chosen])
    return loss + 0.3 * cross_entropy(scores.kinds, kinds)


def _keep(path: Path, network: Any, optimiser: Any, done: int) -> None:
    from safetensors.torch import save_file

    names = {id(parameter): name for name, parameter in network.named_parameters()}
    tensors = {f"net.{name}": value for name, value in network.state_dict().items()}
    for parameter, state in optimiser.state.items():
        tensors.update({f"opt.{names[id(parameter)]}/{key}": value for key, value in state.items()})
    partial = path.with_suffix(".partial")
    save_file({name: v.detach().clone().contiguous() for name, v in tensors.items()}, partial, {"passes": str(done)})
    partial.replace(path)


def _restore(path: Path, network: Any, optimiser: Any) -> int:
    from safetensors import safe_open

    try:
        with safe_open(path, "pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (no mapping)
            done = int(file.metadata()["passes"])
        network.load_state_dict({k[4:]: v for k, v in tensors.items() if k.startswith("net.")})
        for name, parameter in network.named_parameters():
            start = f"opt.{name}/"
            optimiser.state[parameter] = {k[len(start) :]: v for k, v in tensors.items() if k.startswith(start)}
    except Exception as error:  # safetensors, shapes, keys: a state that cannot be used
        raise IntegrityError(f"{path} cannot be taken up ({type(error).__name__}); delete it") from None
    return done
