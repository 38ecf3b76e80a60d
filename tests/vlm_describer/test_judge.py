"""Scores: what the counts come to, and that a description is judged by what it says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from embodied.labels import FrameLabel
from embodied.types import Fact, Frame, Predicate, SceneDescription, SceneState
from robots.random_stage import Stage
from robots.randomize import RandomizerConfig, SceneRandomizer
from vlm_describer.calibration import Calibration
from vlm_describer.clip import NamingLooker
from vlm_describer.judge import judge, judge_all_knowing, view_and_words
from vlm_describer.naming import GeometryNamer
from vlm_describer.oracle import OracleDescriber
from vlm_describer.score import CELLS, Naming, Score, rates
from vlm_describer.seeing import SeeingDescriber

Shot = tuple[Frame, FrameLabel, SceneState]


@pytest.fixture(scope="module")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Shot]]:
    """Both views of a random table, with the states that the views are of."""
    randomizer = SceneRandomizer(RandomizerConfig(split="more_things", views=2, arm=0.0, shares=(1.0, 0.0, 0.0, 0.0)))
    scene = randomizer.draw(3)
    stage = Stage(scene, tmp_path_factory.mktemp("scene"))
    made = []
    for index, view in enumerate(scene.views):
        stage.apply(view)
        frame, label = stage.shoot(index)
        made.append((frame, label, stage.state()))
    yield made
    stage.close()


def oracle(state: SceneState) -> SceneDescription:
    return OracleDescriber(lambda: state).describe()


def test_a_confusion_matrix_by_hand() -> None:
    cells = dict(zip(CELLS, (6, 1, 3, 2, 7, 1), strict=True))
    # True: 6 yes, 1 no, 3 open; false: 2 yes, 7 no, 1 open. Answered: 16 of 20, right 13.
    assert rates(cells) == pytest.approx({"accuracy": 13 / 16, "abstention": 0.2, "precision": 0.75, "recall": 0.6})
    assert np.isnan(list(rates(dict.fromkeys(CELLS, 0)).values())).all()


def test_names_and_times_by_hand() -> None:
    assert Naming(right=3, wrong=1, missed=2).f1 == pytest.approx(2 * 0.75 * 0.6 / (0.75 + 0.6))
    score = Score(cpu_s=[0.01] * 19 + [0.5], errors_m=[0.001, 0.002, 0.003])
    found = score.summary()
    assert found["cpu_ms"] == pytest.approx(10.0)
    assert found["cpu_p95_ms"] == pytest.approx(34.5)
    assert found["position_median_m"] == pytest.approx(0.002)
    assert (found["f1"], found["things"]) == (1.0, 0)
    assert np.isnan(Score().summary()["cpu_ms"])


def test_the_oracle_agrees_with_the_labels(shots: list[Shot]) -> None:
    score = Score()
    for _, label, state in shots:
        judge_all_knowing(oracle(state), label, score)
    found = score.summary()
    assert found["things"] > 5
    assert found["f1"] == found["kind_f1"] == found["colour_f1"] == 1.0
    assert found["position_p95_m"] < 1e-9
    assert found["left_of_true_yes"] == sum(fact.name == "left_of" for _, la, _ in shots for fact in la.facts)
    assert all(score.facts[name][cell] == 0 for name in score.facts for cell in ("true_no", "false_yes"))
    assert found["left_of_false_no"] > 0


def test_a_state_of_another_view_does_not(shots: list[Shot]) -> None:
    (_, first, state), (_, second, _) = shots
    score = Score()
    judge_all_knowing(oracle(state), second, score)
    assert score.summary()["position_median_m"] > 0.01
    fact = next(f for f in first.facts if f.name == "left_of")
    changed = replace(oracle(state), facts=(Fact(Predicate("left_of", fact.args[::-1]), 1.0, "oracle"),))
    lied = Score()
    judge_all_knowing(changed, first, lied)
    assert lied.facts["left_of"]["false_yes"] == 1
    assert lied.facts["left_of"]["true_no"] == sum(f.name == "left_of" for f in first.facts)


def test_one_look_gives_the_description_and_what_it_was_made_of(shots: list[Shot]) -> None:
    frame, label, _ = shots[0]
    looker, calibration = NamingLooker(GeometryNamer()), Calibration(thresholds={"colours": 1.0})
    view, words = view_and_words(frame, label, looker, calibration, "clip")
    assert words == SeeingDescriber("clip", looker, calibration, label.base).describe((frame,))
    assert {item.id for item in words.objects} <= {item.id for item in view.located.items}
    assert view.cpu_s > 0
    score = judge([view], calibration)
    stated = {fact.predicate for fact in words.facts}
    yes = score.facts["left_of"]["true_yes"] + score.facts["left_of"]["false_yes"]
    assert 0 < yes <= sum(predicate.name == "left_of" for predicate in stated)
    assert score.namings["colour"].right == score.namings["both"].right == 0
    assert score.namings["kind"].right > 0
