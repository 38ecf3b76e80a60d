from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from embodied.errors import UserError
from embodied.run.ablation import METRICS, Estimate, comparisons, flatten, middle, parse_variant

DELTAS = {"small": {"sac": {"hidden": [64, 64], "target_entropy": None}, "relay": {"enabled": False}}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("base", {}),
        ("replay.n_step=1", {"replay.n_step": "1"}),
        ("sac.hidden=[128,128]+loop.batch_size=256", {"sac.hidden": "[128,128]", "loop.batch_size": "256"}),
        ("sac.actor_lr=1e+3", {"sac.actor_lr": "1e+3"}),
        ("small", {"sac.hidden": "[64,64]", "sac.target_entropy": "null", "relay.enabled": "false"}),
        (
            "small+replay.n_step=1",
            {
                "sac.hidden": "[64,64]",
                "sac.target_entropy": "null",
                "relay.enabled": "false",
                "replay.n_step": "1",
            },
        ),
    ],
)
def test_variants(text: str, words: dict[str, str]) -> None:
    variant = parse_variant(text, DELTAS)
    assert (variant.name, dict(variant.words)) == (text, words)


@pytest.mark.parametrize(
    ("text", "mention"),
    [("smal", "base, small"), ("small+", "'small\\+'"), ("a=1+a=2", "twice"), ("small+relay.enabled=true", "twice")],
)
def test_mistakes(text: str, mention: str) -> None:
    with pytest.raises(UserError, match=mention):
        parse_variant(text, DELTAS)


def test_flatten_writes_values_as_the_command_line_does() -> None:
    assert flatten({"a": {"b": {"c": 1.5}}, "d": True}) == [("a.b.c", "1.5"), ("d", "true")]


def test_the_middle_of_never_is_never() -> None:
    inf = float("inf")
    assert middle([1, 2, inf]) == 2
    assert middle([1, inf, inf]) is None
    assert middle([1, 3]) == 2


def row(variant: str, success: float, steps: int | None) -> dict[str, Any]:
    return {
        "variant": variant,
        "success_rate": success,
        "mean_success": success / 2,
        "steps_to_0.9": steps,
        "cpu_s_to_0.9": steps,
    }


ROWS = [row("base", 0.9, 100), row("base", 0.8, None), row("b", 1.0, 50), row("b", 1.0, 60), row("c", 0.0, None)]


def test_each_variant_is_compared_with_the_first() -> None:
    found = comparisons(ROWS, None)
    assert [(item["variant"], item["metric"]) for item in found] == [
        (name, metric) for name in "bc" for metric in METRICS
    ]
    assert found[0] == {
        "variant": "b", "against": "base", "metric": "success_rate", "runs": 2, "runs_against": 2,
        "median": 1.0, "median_against": pytest.approx(0.85),
    }  # fmt: skip
    # The median of 100 and never is never.
    assert (found[2]["median"], found[2]["median_against"]) == (55, None)
    assert (found[6]["runs"], found[6]["median"]) == (1, None)
    old = [{**item} for item in ROWS]
    del old[0]["mean_success"]
    assert "mean_success" not in [item["metric"] for item in comparisons(old, None)], (
        "a table made before there was one"
    )


class Pairs:
    """Plain statistics without intervals."""

    def iqm(self, values: Sequence[float]) -> Estimate:
        return Estimate(sum(values) / len(values), None, None)

    def difference(self, first: Sequence[float], second: Sequence[float]) -> Estimate:
        return Estimate(sum(first) / len(first) - sum(second) / len(second), None, None)

    def improvement(self, first: Sequence[float], second: Sequence[float]) -> Estimate:
        pairs = [(x > y) + 0.5 * (x == y) for x in first for y in second]
        return Estimate(sum(pairs) / len(pairs), 0.0, 1.0)


def test_less_is_better_for_steps_and_more_for_success() -> None:
    found = {(item["variant"], item["metric"]): item for item in comparisons(ROWS, Pairs())}
    assert found["b", "success_rate"]["improvement_probability"] == 1.0
    assert found["b", "steps_to_0.9"]["improvement_probability"] == 1.0
    # c never arrives: worse than 100, and as bad as the other that never does.
    assert found["c", "steps_to_0.9"]["improvement_probability"] == 0.25
    assert found["c", "success_rate"]["improvement_probability"] == 0.0
    assert found["b", "success_rate"]["iqm_difference"] == pytest.approx(0.15)
