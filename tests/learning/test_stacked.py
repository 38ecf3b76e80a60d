from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from embodied.learning.compiled import CompiledMlp, Stack, make_stack
from embodied.learning.flat import FlatAdam, FlatParameters
from embodied.learning.native import library
from embodied.learning.networks import CriticEnsemble, PolicyModule, PolicyShape
from embodied.learning.stacked import StackedMlp

ROWS = 301
WIDTHS = (24, 53, 36)
MAKERS = {"eager": StackedMlp, "compiled": CompiledMlp}


makers = pytest.mark.parametrize(
    "make",
    ["eager", pytest.param("compiled", marks=pytest.mark.skipif(library() is None, reason="needs a C compiler"))],
)


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def _shaken(module: nn.Module) -> None:
    """Every parameter away from zero and one, so that no gradient vanishes by chance."""
    generator = _generator()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))


def _critic(
    make: str, layer_norm: bool, half: bool = False, members: int = 3
) -> tuple[CriticEnsemble, FlatParameters, Stack]:
    critic = CriticEnsemble(members, 7, WIDTHS, layer_norm)
    critic.initialise(_generator())
    _shaken(critic)
    flat = FlatParameters(critic)
    return critic, flat, MAKERS[make](critic.layers(flat), half)


def _inputs(width: int = 7) -> tuple[Tensor, Tensor]:
    generator = _generator()
    return torch.randn(ROWS, width - 2, generator=generator), torch.rand(ROWS, 2, generator=generator)


def _autograd(critic: CriticEnsemble, slopes: Tensor, first: int | None = None) -> tuple[Tensor, list[Tensor], Tensor]:
    """Values, gradients of the parameters and of the action in [-1, 1], by torch."""
    twin = CriticEnsemble(critic.members, 7, WIDTHS, len(critic.gains) > 0)
    twin.load_state_dict(critic.state_dict())
    features, unit = _inputs()
    unit.requires_grad_(True)
    values = twin(features, unit, first)
    *gradients, action = torch.autograd.grad((values * slopes).sum(), [*twin.parameters(), unit])
    return values.detach(), gradients, action / 2.0


@makers
@pytest.mark.parametrize("layer_norm", [False, True])
def test_values_and_gradients_of_critics_are_autograds(make: str, layer_norm: bool) -> None:
    critic, flat, stacked = _critic(make, layer_norm)
    features, unit = _inputs()
    slopes = torch.randn(3, ROWS, generator=_generator())
    values, gradients, action = _autograd(critic, slopes)
    ours = stacked.forward(torch.cat((features, 2.0 * unit - 1.0), 1)).squeeze(2)
    torch.testing.assert_close(ours, values, rtol=1e-4, atol=1e-5)
    found = stacked.backward(slopes[..., None], inputs=2)
    torch.testing.assert_close(found, action, rtol=1e-4, atol=1e-5)
    for parameter, gradient in zip(critic.parameters(), gradients, strict=True):
        assert gradient.abs().max() > 0
        torch.testing.assert_close(flat.gradient(parameter), gradient, rtol=1e-4, atol=1e-4)


@makers
def test_a_few_of_the_critics_leave_the_gradients_of_parameters_alone(make: str) -> None:
    critic, flat, stacked = _critic(make, layer_norm=True)
    features, unit = _inputs()
    slopes = torch.randn(2, ROWS, generator=_generator())
    twin = CriticEnsemble(2, 7, WIDTHS, True)
    twin.load_state_dict({name: value[:2] for name, value in critic.state_dict().items()})
    values, _, action = _autograd(twin, slopes)
    ours = stacked.forward(torch.cat((features, 2.0 * unit - 1.0), 1), first=2)
    torch.testing.assert_close(ours.squeeze(2), values, rtol=1e-4, atol=1e-5)
    found = stacked.backward(slopes[..., None], parameters=False, inputs=2)
    torch.testing.assert_close(found, action, rtol=1e-4, atol=1e-5)
    assert not flat.gradients.any()


@makers
def test_rows_that_had_no_part_in_the_loss_are_left_out_of_the_policys_gradient(make: str) -> None:
    shape = PolicyShape(4, 3, (-1.0, -1.0), (1.0, 1.0), WIDTHS)
    policy = PolicyModule(shape)
    policy.initialise(_generator())
    _shaken(policy)
    twin = PolicyModule(shape)
    twin.load_state_dict(policy.state_dict())
    flat = FlatParameters(policy)
    features = torch.randn(ROWS, 7, generator=_generator())
    slopes = torch.randn(ROWS // 2, 4, generator=_generator())
    raw = twin.head(twin.trunk(features))
    gradients = torch.autograd.grad((raw[: ROWS // 2] * slopes).sum(), list(twin.parameters()))
    stacked = MAKERS[make](policy.layers(flat))
    torch.testing.assert_close(stacked.forward(features)[0], raw.detach(), rtol=1e-4, atol=1e-5)
    stacked.backward(slopes[None])
    for parameter, gradient in zip(policy.parameters(), gradients, strict=True):
        torch.testing.assert_close(flat.gradient(parameter), gradient, rtol=1e-4, atol=1e-5)


@makers
@pytest.mark.parametrize("layer_norm", [False, True])
def test_bfloat16_stays_near_float32(make: str, layer_norm: bool) -> None:
    """A bfloat16 has 8 bits: values are right to a few parts in a thousand of their typical size.

    About as many units change between on and off, and a gradient that passes one unit in 200 wrongly is off by the
    square root of that.
    """
    features, unit = _inputs()
    slopes = torch.randn(3, ROWS, 1, generator=_generator())
    results = []
    for half in (False, True):
        _, flat, stacked = _critic(make, layer_norm, half)
        values = stacked.forward(torch.cat((features, 2.0 * unit - 1.0), 1)).clone()
        action = stacked.backward(slopes, inputs=2)
        results.append((values, flat.gradients, action))
    for exact, rounded, bound in zip(*results, (0.01, 0.1, 0.1), strict=True):
        error = (rounded - exact).square().mean().sqrt() / exact.square().mean().sqrt()
        assert 1e-5 < error < bound


@makers
def test_changed_parameters_count_after_a_refresh(make: str) -> None:
    critic, flat, stacked = _critic(make, layer_norm=True)
    features, unit = _inputs()
    inputs = torch.cat((features, 2.0 * unit - 1.0), 1)
    before = stacked.forward(inputs).clone()
    flat.values.mul_(1.5)
    stacked.refresh()
    after = stacked.forward(inputs).squeeze(2)
    torch.testing.assert_close(after, critic(features, unit), rtol=1e-4, atol=1e-5)
    assert (after - before.squeeze(2)).abs().max() > 1e-2


@makers
def test_rows_without_a_slope_do_not_count(make: str) -> None:
    critic, _, stacked = _critic(make, layer_norm=True)
    features, unit = _inputs()
    inputs = torch.cat((features, 2.0 * unit - 1.0), 1)
    values = stacked.forward(inputs)
    slopes = torch.zeros_like(values).scatter_(0, values.argmin(0, keepdim=True), 1.0)
    slopes[:, ::3] = 0.0
    _, _, action = _autograd(critic, slopes[..., 0])
    found = stacked.backward(slopes, parameters=False, inputs=2)
    torch.testing.assert_close(found, action, rtol=1e-4, atol=1e-5)
    assert not found[::3].any()


@makers
def test_batches_of_many_sizes_take_turns(make: str) -> None:
    critic, _, stacked = _critic(make, layer_norm=True)
    for rows in (3, 40, 5, 192, 17, 1, 301, 3, 40):
        features, unit = (part[:rows] for part in _inputs())
        values = stacked.forward(torch.cat((features, 2.0 * unit - 1.0), 1)).squeeze(2)
        torch.testing.assert_close(values, critic(features, unit), rtol=1e-4, atol=1e-5)


def test_parameters_of_a_module_are_views_of_one_vector_under_their_old_names() -> None:
    critic = CriticEnsemble(2, 5, (4,), True)
    names = {name: value.clone() for name, value in critic.state_dict().items()}
    flat = FlatParameters(critic)
    assert {name: value.shape for name, value in critic.state_dict().items()} == {
        name: value.shape for name, value in names.items()
    }
    assert len(flat.values) == sum(value.numel() for value in names.values())
    flat.values.fill_(2.0)
    assert all((value == 2.0).all() for value in critic.state_dict().values())
    critic.load_state_dict(names)
    assert all(torch.equal(value, names[name]) for name, value in critic.state_dict().items())
    assert not (flat.values == 2.0).all()


@makers
def test_adam_is_torchs_and_goes_on_where_it_was_saved(make: str) -> None:
    start, gradient = torch.randn(50, generator=_generator()), torch.linspace(-1.0, 1.0, 50)
    theirs, ours = nn.Parameter(start.clone()), start.clone()
    compiled = make == "compiled"
    optimizer, adam = torch.optim.Adam([theirs], lr=0.01), FlatAdam(ours, gradient, 0.01, compiled)
    for _ in range(5):
        theirs.grad = gradient
        optimizer.step()
        adam.step()
        gradient.mul_(-0.7)
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-6, atol=1e-7)
    later = ours.clone()
    other = FlatAdam(later, gradient, 0.01, compiled)
    other.restore({name: value.clone() for name, value in adam.state().items()})
    other.step()
    adam.step()
    assert torch.equal(ours, later)
    assert (ours - start).abs().min() > 0
    with pytest.raises(RuntimeError, match="another shape"):
        FlatAdam(ours[:5], gradient[:5], 0.01).restore(adam.state())


def test_a_policys_shape_says_how_wide_its_stack_is() -> None:
    shape = replace(PolicyShape(4, 3, (-1.0,), (1.0,), (8,)), ignored=(0, 5), differences=((1, 2),))
    policy = PolicyModule(shape)
    assert make_stack(policy.layers(FlatParameters(policy))).input_width == shape.input_width == 6
