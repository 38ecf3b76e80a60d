"""A causal language model in this process: what it says is held to a grammar, what others would say is scored.

The grammar is a JSON schema that `llguidance` turns into the tokens allowed next (github.com/guidance-ai/llguidance).
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from embodied import hub
from embodied.errors import IntegrityError, UserError
from embodied.planning.asking import Answer, Grant, Message, ModelError, Question
from embodied.rng import child_seed

if TYPE_CHECKING:
    import torch

CONFIG = "config.json"
BATCH = 32
"""Continuations that are scored at once."""
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
_NO_WHITE_SPACE: dict[str, Any] = {"whitespace_flexible": False}


@dataclass(frozen=True)
class Scores:
    """Log-likelihoods of continuations, and the tokens that were looked at."""

    values: tuple[float, ...]
    """Natural logarithms, one for each continuation."""
    tokens: int


class LocalModel:
    """Implements `LanguageModel` and `saycan.Scorer` with a model of `transformers`."""

    def __init__(self, network: Any, tokenizer: Any, name: str) -> None:
        """
        Args:
            network: A causal language model; its parameters are frozen.
            tokenizer: Its tokenizer, a fast one.
            name: For results and the cache.
        """
        self.network = network.eval().requires_grad_(False)
        self.tokenizer, self._name = tokenizer, name
        # Renamed in transformers 5.24; the older word goes with 5.40.
        self._known = "cache" if "cache" in signature(network.forward).parameters else "past_key_values"
        self._guide: Any = None
        self._grammars: dict[str, str] = {}

    @property
    def name(self) -> str:
        return self._name

    def prompt_bound(self, question: Question) -> int:
        """The exact number of tokens."""
        return len(self._tokens_of(question))

    def answer(self, question: Question, grant: Grant) -> Answer:
        """An answer of the question's schema; greedy at temperature 0, else drawn with `sample` as the seed.

        Raises:
            ModelError: `rejected`: the prompt is too long, or the schema no grammar; `timeout`: the time was up.
        """
        prompt = self._tokens_of(question)
        self._check_length(len(prompt) + grant.max_tokens)
        matcher = None if question.schema is None else self._matcher(question.schema)
        tokens, finish = self._generate(prompt, matcher, question, grant)
        text = self.tokenizer.decode(tokens, skip_special_tokens=True)
        return Answer(text, finish=finish, tokens_in=len(prompt), tokens_out=len(tokens))

    def score(self, question: Question, continuations: Sequence[str]) -> Scores:
        """How likely each continuation of the prompt is, to its end.

        Raises:
            ModelError: `rejected`: the prompt is too long.
        """
        import torch

        prompt = self._tokens_of(question)
        rows = [self.tokenizer(text, add_special_tokens=False)["input_ids"] for text in continuations]
        longest = max(map(len, rows))
        self._check_length(len(prompt) + longest)
        values: list[float] = []
        with torch.inference_mode():
            seen = self.network(torch.tensor([prompt]), use_cache=True)
            first = seen.logits[0, -1].float().log_softmax(-1)
            for start in range(0, len(rows), BATCH):
                values += self._scored(getattr(seen, self._known), first, rows[start : start + BATCH])
        return Scores(tuple(values), len(prompt) + sum(map(len, rows)))

    def _scored(self, past: Any, first: torch.Tensor, rows: Sequence[Sequence[int]]) -> list[float]:
        """Sums of log-probabilities; what fills short rows up stands at their end, where nothing looks at it."""
        import torch

        width = max(map(len, rows))
        tokens = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
        there = torch.tensor([[column < len(row) for column in range(width)] for row in rows])
        known = copy.deepcopy(past)
        known.batch_repeat_interleave(len(rows))
        logits = self.network(tokens, use_cache=True, **{self._known: known}).logits[:, :-1]
        later = logits.float().log_softmax(-1).gather(-1, tokens[:, 1:, None]).squeeze(-1)
        both = torch.cat((first[tokens[:, :1]], later), 1)
        return [float(v) for v in both.where(there, torch.zeros(())).sum(1)]

    def _generate(self, prompt: list[int], matcher: Any, question: Question, grant: Grant) -> tuple[list[int], str]:
        import torch

        draw = torch.Generator().manual_seed(child_seed(question.sample, "answer"))
        ends, began = self._ends(), time.monotonic()
        tokens: list[int] = []
        step, past = torch.tensor([prompt]), None
        with torch.inference_mode():
            while len(tokens) < grant.max_tokens:
                if time.monotonic() - began > grant.seconds:
                    raise ModelError("timeout", f"{self.name} did not come to an end within {grant.seconds:.1f} s")
                seen = self.network(step, use_cache=True, **{self._known: past})
                past, logits = getattr(seen, self._known), seen.logits[0, -1].float()
                if matcher is not None:
                    logits = logits.masked_fill(~self._allowed(matcher, len(logits)), float("-inf"))
                token = _drawn(logits, question.temperature, draw)
                if token in ends:
                    return tokens, "stop"
                tokens.append(token)
                if matcher is not None and (not matcher.consume_token(token) or matcher.is_stopped()):
                    return tokens, "stop"
                step = torch.tensor([[token]])
        return tokens, "length"

    @staticmethod
    def _allowed(matcher: Any, width: int) -> torch.Tensor:
        """Which tokens may come next, (V,)."""
        import torch

        bias = np.frombuffer(matcher.compute_logit_bias(), dtype=np.uint8)
        allowed = np.zeros(width, dtype=bool)
        allowed[: len(bias)] = bias[:width] > 0
        return torch.from_numpy(allowed)

    def _matcher(self, schema: Mapping[str, Any]) -> Any:
        """Follows an answer and says which tokens may come next.

        Raises:
            UserError: The package llguidance is not installed.
            ModelError: `rejected`: the schema cannot be made a grammar.
        """
        check_llguidance()
        import llguidance
        import llguidance.hf

        if self._guide is None:
            self._guide = llguidance.hf.from_tokenizer(self.tokenizer, eos_token=self.tokenizer.eos_token_id)
        text = json.dumps(schema, sort_keys=True)
        if text not in self._grammars:
            made = llguidance.LLMatcher.grammar_from_json_schema(schema, defaults=_NO_WHITE_SPACE)
            self._grammars[text] = made
        matcher = llguidance.LLMatcher(self._guide, self._grammars[text], log_level=0)
        if matcher.is_error():
            raise ModelError("rejected", f"the schema of a plan is no grammar: {matcher.get_error()[:200]}")
        return matcher

    def _tokens_of(self, question: Question) -> list[int]:
        """The conversation as the model's own template has it, else plainly."""
        if not self.tokenizer.chat_template:
            text = "\n\n".join(message.text.strip() for message in question.messages)
            closing = "" if len(question.messages) == 1 else "\n"
            return list(self.tokenizer(text + closing)["input_ids"])
        text = self._chat(question.messages)
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _chat(self, messages: Sequence[Message]) -> str:
        """The conversation in the model's template; some templates have no role `system`."""
        told = [{"role": message.role, "content": message.text} for message in messages]
        try:
            return self._templated(told)
        except Exception as error:  # a template is a program of its own; it raises what it likes
            if told[0]["role"] != "system" or len(told) < 2:
                raise UserError(f"the chat template of {self.name} fails ({type(error).__name__})") from None
            joined = {"role": "user", "content": f"{told[0]['content']}\n\n{told[1]['content']}"}
            return self._templated([joined, *told[2:]])

    def _templated(self, told: Sequence[Mapping[str, str]]) -> str:
        return str(self.tokenizer.apply_chat_template(list(told), add_generation_prompt=True, tokenize=False))

    def _check_length(self, tokens: int) -> None:
        most = getattr(self.network.config, "max_position_embeddings", None)
        if most is not None and tokens > most:
            raise ModelError("rejected", f"prompt and answer may have {tokens} tokens, {self.name} takes {most}")

    def _ends(self) -> frozenset[int]:
        told = [self.tokenizer.eos_token_id, getattr(self.network.generation_config, "eos_token_id", None)]
        return frozenset(
            token for item in told for token in (item if isinstance(item, list) else [item]) if token is not None
        )


def check_llguidance() -> None:
    """
    Raises:
        UserError: The package llguidance, which holds answers to a grammar, is not installed.
    """
    if find_spec("llguidance") is None:
        raise UserError("planner=transformers needs llguidance: pip install 'embodied-control[local]'")


def load_local_model(model: str) -> LocalModel:
    """A causal language model from a folder, or by its hub name from the cache or the hub. Runs no code of its own.

    Raises:
        UserError: There is none, it cannot be had (said within seconds, without retries), or it is no such model.
    """
    source, there = _source(model.strip())
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging
    except ImportError:
        raise UserError("a local model needs transformers: pip install 'embodied-control[local]'") from None
    progress = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        given = {"local_files_only": there, "trust_remote_code": False}
        tokenizer = AutoTokenizer.from_pretrained(source, **given)
        network = AutoModelForCausalLM.from_pretrained(source, use_safetensors=True, **given)
    except Exception as error:  # the library has a dozen kinds; each means that there is no model
        line = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
        raise IntegrityError(f"model={model} cannot be used as a causal language model: {line}") from None
    finally:
        if progress:
            logging.enable_progress_bar()
    return LocalModel(network, tokenizer, f"{model.strip()}{_fingerprint(source)}")


def _fingerprint(source: str) -> str:
    """What tells a folder's model from another that takes its place: sizes and times of its files; empty for a name."""
    files = sorted(path for path in Path(source).glob("*") if path.suffix in (".safetensors", ".json", ".jinja"))
    told = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return f" ({hashlib.sha256(repr(told).encode()).hexdigest()[:12]})" if told else ""


def _source(model: str) -> tuple[str, bool]:
    """Folder or hub name, and whether all of it is on this machine."""
    if not model:
        raise UserError("a local model has to be named: give model=<folder> or model=<hub name>")
    folder = Path(model).expanduser()
    if folder.is_dir():
        if not (folder / CONFIG).is_file():
            raise UserError(f"model={model} holds no {CONFIG}: give the folder of a transformers model")
        return str(folder), True
    if not _HUB_NAME.fullmatch(model) or model.startswith((".", "/", "~")):
        raise UserError(f"there is no folder {model}: {hub.FOLDER}, or a hub name such as Qwen/Qwen2.5-0.5B-Instruct")
    hub.fetch(model, CONFIG, hub.FOLDER)
    weights = ("model.safetensors", "model.safetensors.index.json")
    there = any(hub.cached(model, name) for name in weights)
    if not there:
        hub.require(hub.HUB, f"{model}/{weights[0]}", hub.FOLDER)
    return model, there


def _drawn(logits: torch.Tensor, temperature: float, draw: torch.Generator) -> int:
    """A token from logits (V,)."""
    import torch

    if temperature <= 0:
        return int(logits.argmax())
    return int(torch.multinomial((logits / temperature).softmax(-1), 1, generator=draw))
