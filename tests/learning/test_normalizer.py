from __future__ import annotations

import numpy as np
import torch

from embodied.learning.normalizer import Normalizer


def test_chunks_of_any_size_give_the_moments_of_the_whole() -> None:
    rows = np.random.default_rng(0).normal([3.0, -1e6, 0.0], [2.0, 0.5, 1e-2], (1000, 3))
    normalizer = Normalizer(3)
    for chunk in np.split(rows, [1, 2, 50, 51, 700]):
        normalizer.update(chunk)
    normalizer.update(rows[:0])
    torch.testing.assert_close(normalizer.exact_mean, torch.from_numpy(rows.mean(0)), rtol=1e-12, atol=0)
    torch.testing.assert_close(normalizer.scale, torch.from_numpy(1 / rows.std(0)).float(), rtol=1e-5, atol=0)


def test_output_is_standardised_and_clipped() -> None:
    rows = np.random.default_rng(1).normal(5.0, 3.0, (5000, 1))
    normalizer = Normalizer(1, clip=2.0)
    normalizer.update(rows)
    out = normalizer(torch.from_numpy(rows).float())
    assert out.abs().max() == 2.0
    assert abs(out.mean()) < 0.02
    assert normalizer(torch.tensor([[1e9]])).item() == 2.0


def test_a_constant_input_does_not_blow_up() -> None:
    normalizer = Normalizer(1, min_std=1e-3)
    normalizer.update(np.full((100, 1), 0.7, np.float32))
    assert abs(normalizer(torch.tensor([[0.7 + 1e-6]])).item()) < 0.01


def test_nothing_seen_is_the_identity_within_the_clip() -> None:
    x = torch.tensor([[0.5, -3.0]])
    assert torch.equal(Normalizer(2)(x), x)


def test_forward_leaves_the_statistics_alone_and_state_dict_carries_them() -> None:
    normalizer = Normalizer(2)
    normalizer.update(np.random.default_rng(2).normal(size=(50, 2)))
    before = {key: value.clone() for key, value in normalizer.state_dict().items()}
    normalizer.train()(torch.randn(10, 2))
    assert all(torch.equal(before[key], value) for key, value in normalizer.state_dict().items())
    twin = Normalizer(2)
    twin.load_state_dict(normalizer.state_dict())
    x = torch.randn(5, 2)
    assert torch.equal(twin(x), normalizer(x))
    more = np.ones((3, 2))
    twin.update(more)
    normalizer.update(more)
    assert torch.equal(twin.scale, normalizer.scale)
