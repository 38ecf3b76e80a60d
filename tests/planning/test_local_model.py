"""A causal model in process, made here: held to plans, scored by words, refused at once where it is not there."""

from __future__ import annotations

import json
import math
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from embodied.errors import UserError
from embodied.planning.asking import Asker, Message, ModelError, Question
from embodied.planning.budget import Account, BudgetConfig
from embodied.planning.grammar import exact_schema
from embodied.planning.local_model import LocalModel, Scores, load_local_model
from embodied.planning.model_planner import ModelPlanner, ModelPlannerConfig
from embodied.planning.plan import first_error
from embodied.planning.prompting import ARM_SKILLS, Task, plan_messages
from embodied.planning.saycan import SayCanConfig, SayCanPlanner, all_steps, words_of
from embodied.types import PlanFailure, PlanStep, SceneDescription

TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama with a tokenizer of bytes, as a user's folder."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(["<end>", *letters])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")
    fast.chat_template = TEMPLATE
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=8192, eos_token_id=0, bos_token_id=None,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("models") / "tiny"
    LlamaForCausalLM(config).save_pretrained(path)
    fast.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> LocalModel:
    return load_local_model(str(folder))


def test_random_words_are_held_to_the_grammar(model: LocalModel, blocks: SceneDescription) -> None:
    pytest.importorskip("llguidance")
    task = Task("put the red block in the left tray", blocks, ARM_SKILLS)
    whole = 0
    for sample in range(4):
        question = Question((Message("user", "plan"),), exact_schema(task), 1.0, 1500, sample)
        answer = model.answer(question, Account().grant(10, 1500))
        if answer.finish == "stop":
            whole += 1
            assert first_error(exact_schema(task), json.loads(answer.content)) == ""
            assert answer.content == "".join(answer.content.split("\n"))
        else:
            assert answer.finish == "length"
    assert whole


def test_the_same_draw_gives_the_same_answer_and_another_another(model: LocalModel, blocks: SceneDescription) -> None:
    pytest.importorskip("llguidance")
    schema = exact_schema(Task("x", blocks, ARM_SKILLS))
    said = [
        model.answer(Question((Message("user", "plan"),), schema, 1.0, 40, sample), Account().grant(10, 40)).content
        for sample in (0, 0, 1)
    ]
    assert said[0] == said[1] != said[2]


def test_a_random_model_never_gets_a_bad_plan_through(model: LocalModel, blocks: SceneDescription) -> None:
    pytest.importorskip("llguidance")
    asker = Asker(model, Account(BudgetConfig(tokens=10**6)))
    config = ModelPlannerConfig(votes=2, temperature=1.0, max_tokens=200, skills=ARM_SKILLS)
    planner = ModelPlanner("transformers", asker, config, dialect="exact")
    planner.propose("put the red block in the left tray", blocks)
    assert set(planner.usage()["errors"]) <= {"refused_plan", "truncated"}
    assert planner.usage()["calls"] <= 3


def test_a_prompt_that_is_too_long_is_refused(model: LocalModel) -> None:
    with pytest.raises(ModelError, match="takes 8192"):
        model.answer(Question((Message("user", "x" * 9000),)), Account().grant(10, 10))


def test_time_is_up(model: LocalModel) -> None:
    grant = Account(BudgetConfig(seconds=0.06)).grant(10, 4000)
    with pytest.raises(ModelError, match="come to an end"):
        model.answer(Question((Message("user", "x"),), max_tokens=4000), grant)


def test_scores_are_the_log_likelihoods(model: LocalModel) -> None:
    """Against one pass over prompt and continuation together."""
    question = Question((Message("user", "what now?"),))
    words = [" touch it.", " go", " put the red block in the tray."]
    scored = model.score(question, words)
    prompt = model.tokenizer("<user>what now?<assistant>", add_special_tokens=False)["input_ids"]
    for text, value in zip(words, scored.values, strict=True):
        tokens = model.tokenizer(text, add_special_tokens=False)["input_ids"]
        logits = model.network(torch.tensor([prompt + tokens])).logits[0].log_softmax(-1)
        by_hand = sum(float(logits[len(prompt) + i - 1, token]) for i, token in enumerate(tokens))
        assert value == pytest.approx(by_hand, abs=1e-3)
    assert scored.tokens == len(prompt) + sum(len(text) for text in words)


class Words:
    """Likes words by what they hold."""

    name = "words"

    def __init__(self, *liked: str) -> None:
        self.liked, self.prompts = liked, list[str]()

    def prompt_bound(self, question: Question) -> int:
        return question.bytes

    def score(self, question: Question, continuations: Sequence[str]) -> Scores:
        self.prompts.append(question.messages[-1].text)
        wanted = self.liked[min(len(self.prompts), len(self.liked)) - 1]
        return Scores(tuple(0.0 if wanted in text else -5.0 - 0.01 * len(text) for text in continuations), 100)


class TestSayCan:
    """The model's liking times the controller's chance."""

    def test_it_goes_step_by_step_until_done(self, blocks: SceneDescription) -> None:
        scorer = Words("put the red block (red_block) in the white tray", "touch the blue block", "done")
        planner = SayCanPlanner(scorer, Account())
        made = planner.propose("red into the left tray, then touch blue", blocks)
        assert made == (PlanStep("place", ("red_block", "left_tray")), PlanStep("touch", ("blue_block",)))
        assert scorer.prompts[0].endswith("Steps:\n1.")
        assert scorer.prompts[2].endswith("2. touch the blue block (blue_block)\n3.")
        assert (planner.usage()["calls"], planner.usage()["tokens_in"]) == (3, 300)

    def test_what_the_controller_cannot_do_is_not_chosen(self, blocks: SceneDescription) -> None:
        def only_blue(step: PlanStep, scene: SceneDescription) -> float:
            return 0.9 if step.args[:1] == ("blue_block",) else 0.001

        scorer = Words(" touch the", "done")
        made = SayCanPlanner(scorer, Account(), only_blue).propose("touch something", blocks)
        assert made == (PlanStep("touch", ("blue_block",)),)

    def test_the_score_is_the_product(self, blocks: SceneDescription) -> None:
        """Blue: exp(-1) * 0.9 = .33; red: exp(0) * 0.3 = .30. Blue is better although it is less likely."""

        class Two(Words):
            def score(self, question: Question, continuations: Sequence[str]) -> Scores:
                self.prompts.append("")
                likes = {"touch the red": 0.0, "touch the blue": -1.0, "done": -9.0 if len(self.prompts) == 1 else 9.0}
                values = [next((v for k, v in likes.items() if k in text), -9.0) for text in continuations]
                return Scores(tuple(values), 1)

        chances = {"red_block": 0.3, "blue_block": 0.9}
        planner = SayCanPlanner(Two(), Account(), lambda step, scene: chances.get((*step.args, "")[0], 0.0))
        assert planner.propose("touch one", blocks) == (PlanStep("touch", ("blue_block",)),)
        assert math.exp(-1) * 0.9 > 0.3

    def test_it_ends(self, blocks: SceneDescription) -> None:
        endless = SayCanPlanner(Words("touch"), Account(), config=SayCanConfig(max_steps=3))
        made = endless.propose("go on", blocks)
        assert isinstance(made, PlanFailure)
        assert "within 3 steps" in made.message
        nothing = SayCanPlanner(Words("done"), Account()).propose("do nothing", blocks)
        assert isinstance(nothing, PlanFailure)
        spent = SayCanPlanner(Words("touch"), Account(BudgetConfig(calls=1))).propose("touch", blocks)
        assert isinstance(spent, PlanFailure)
        assert spent.reason == "budget"

    def test_what_cannot_be_is_no_candidate(self, blocks: SceneDescription) -> None:
        steps = list(all_steps(blocks, ARM_SKILLS))
        assert PlanStep("stack", ("red_block", "red_block")) not in steps
        assert not any(step.skill == "place" and step.args[0] == "table" for step in steps)

        def no_trays(steps: Sequence[PlanStep], scene: SceneDescription) -> PlanFailure | None:
            return PlanFailure("unreachable", "far") if any("tray" in str(step.args) for step in steps) else None

        planner = SayCanPlanner(Words("white tray", "done"), Account(), verify=no_trays)
        made = planner.propose("red into the tray", blocks)
        assert isinstance(made, PlanFailure) or all("tray" not in str(step.args) for step in made)

    def test_words(self, blocks: SceneDescription) -> None:
        task = Task("x", blocks)
        told = [
            words_of(PlanStep("place", ("red_block", "left_of:blue_block")), task),
            words_of(PlanStep("stack", ("red_block", "blue_block")), task),
            words_of(PlanStep("place", ("red_block", "1,2,3")), task),
        ]
        assert told == [
            "put the red block (red_block) to the left of the blue block (blue_block)",
            "put the red block (red_block) on top of the blue block (blue_block)",
            "put the red block (red_block) to 1,2,3",
        ]

    def test_with_a_model_in_process(self, model: LocalModel, blocks: SceneDescription) -> None:
        planner = SayCanPlanner(model, Account(), config=SayCanConfig(max_steps=1, skills=("touch", "hold")))
        planner.propose("touch the red block", blocks)
        assert 1 <= planner.usage()["calls"] <= 2


def test_no_network_is_said_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nothing(*args: Any, **kwargs: Any) -> socket.socket:
        raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "create_connection", nothing)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    began = time.monotonic()
    with pytest.raises(UserError, match="does not answer|HF_HUB_OFFLINE"):
        load_local_model("nobody/has-this-model")
    assert time.monotonic() - began < 5.0


@pytest.mark.parametrize(
    ("model", "told"), [("", "model=<folder>"), ("/no/where", "no folder"), ("../x", "no folder"), ("a b", "no folder")]
)
def test_a_model_that_is_not_there(model: str, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(UserError, match=told):
        load_local_model(model)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"config\.json"):
        load_local_model(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match="cannot be used"):
        load_local_model(str(tmp_path))


def test_a_template_without_a_system_role(model: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    strict = "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + TEMPLATE
    monkeypatch.setattr(model.tokenizer, "chat_template", strict)
    text = model._chat((Message("system", "be good"), Message("user", "plan")))
    assert text == "<user>be good\n\nplan<assistant>"


def test_prompts_fit_small_models(blocks: SceneDescription) -> None:
    """The prompt of a small scene stays within 6,000 bytes, about 1,500 tokens."""
    assert Question(plan_messages(Task("put the red block in the left tray", blocks, ARM_SKILLS))).bytes < 6000
