"""Several perceptrons of one shape at once, forward and backward by hand on memory that is kept.

An update of the learner runs the same few products tens of thousands of times. Autograd would record each of them, make
every intermediate result anew and compute gradients that nobody asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

EPSILON = 1e-5
"""Added to the variance in a layer normalisation, as in `torch.nn.functional.layer_norm`."""
KEPT_ROOMS = 4
"""Batch sizes that memory is kept for."""
_MASKED = torch.ops.aten.threshold_backward.grad_input
_NORM_BACKWARD = torch.ops.aten.native_layer_norm_backward


@dataclass(frozen=True)
class Pair:
    """A parameter and where its gradient goes, of one shape."""

    value: Tensor
    gradient: Tensor


@dataclass(frozen=True)
class Norm:
    """Factor and summand after a layer normalisation, each (N, 1, out)."""

    gain: Pair
    shift: Pair


@dataclass(frozen=True)
class Layer:
    """One layer of N members: y = relu(norm(x W + b)), the last one without relu and norm."""

    weight: Pair
    """(N, in, out), or (N, out, in) where `turned`."""
    bias: Pair
    """(N, 1, out)"""
    turned: bool = False
    norm: Norm | None = None

    @property
    def matrix(self) -> Tensor:
        """W as (N, in, out)."""
        return self.weight.value.transpose(1, 2) if self.turned else self.weight.value


class Room:
    """What a forward pass leaves for its backward pass, for batches of one size."""

    def __init__(self, members: int, rows: int, widths: Sequence[int], half: bool) -> None:
        """Args:
        members: N.
        rows: Batch size.
        widths: Outputs of each layer.
        half: Whether the hidden layers' products are in bfloat16.
        """
        shapes = [(members, rows, width) for width in widths]
        self.inputs = torch.empty(0)
        self.outputs = [torch.empty(shape) for shape in shapes]
        self.sums = [torch.empty(shape) for shape in shapes]
        self.scales = [torch.empty(members, rows, 1) for _ in shapes]
        self.gradients = [torch.empty(shape) for shape in shapes]
        self.zeros = torch.zeros(rows, 1)
        rounded = shapes if half else []
        self.half, self.half_products, self.half_gradients = (
            [torch.empty(shape, dtype=torch.bfloat16) for shape in rounded] for _ in range(3)
        )


class StackedMlp:
    """N multilayer perceptrons that share their input rows.

    With layer normalisation the mean over the units is taken out of the weights instead of out of every row: with
    W' = W - mean(W), b' = b - mean(b) over the output units, x W' + b' has mean zero already. The normalisation's own
    backward pass (Ba et al. 2016, arXiv 1607.06450) takes the mean out again, so the gradients are those of W and b.

    `refresh` has to be called after every change of the parameters.
    """

    def __init__(self, layers: Sequence[Layer], half: bool = False) -> None:
        """Args:
        layers: First to last.
        half: Products between hidden layers in bfloat16; the first and the last layer stay in float32.
        """
        self.layers = tuple(layers)
        self.members, self.input_width, _ = layers[0].matrix.shape
        self._widths = [layer.matrix.shape[2] for layer in layers]
        self._half = half
        self._matrices = [torch.empty_like(one.matrix) if one.norm is not None else one.matrix for one in layers]
        self._biases = [torch.empty_like(one.bias.value) if one.norm is not None else one.bias.value for one in layers]
        self._half_matrices: list[Tensor | None] = [
            torch.empty_like(layer.matrix, dtype=torch.bfloat16) if self._is_half(index) else None
            for index, layer in enumerate(layers)
        ]
        self._rooms: dict[int, Room] = {}
        self._room: Room
        self.refresh()

    def share_rooms(self, other: StackedMlp) -> None:
        """Use the other's memory, for networks of one shape that are never between forward and backward together."""
        self._rooms = other._rooms

    @torch.no_grad()
    def refresh(self) -> None:
        """Take in the parameters as they are now."""
        for layer, matrix, bias, half in zip(
            self.layers, self._matrices, self._biases, self._half_matrices, strict=True
        ):
            if layer.norm is not None:
                torch.sub(layer.matrix, layer.matrix.mean(2, keepdim=True), out=matrix)
                torch.sub(layer.bias.value, layer.bias.value.mean(2, keepdim=True), out=bias)
            if half is not None:
                half.copy_(matrix)

    @torch.no_grad()
    def forward(self, inputs: Tensor, first: int | None = None) -> Tensor:
        """Outputs of the `first` members (all where None): inputs (B, I) to (N, B, O), valid until the next call."""
        members = first or self.members
        self._room = room = self._room_for(len(inputs))
        room.inputs = hidden = inputs.expand(members, -1, -1)
        for index, layer in enumerate(self.layers):
            output = room.outputs[index][:members]
            if layer.norm is None:
                hidden = self._product(index, hidden, room, output)
            else:
                centred = self._product(index, hidden, room, room.sums[index][:members])
                scale = torch.linalg.vector_norm(centred, dim=2, keepdim=True, out=room.scales[index][:members])
                scale.square_().div_(self._widths[index]).add_(EPSILON).rsqrt_()
                torch.mul(centred, scale, out=output)
                gain, shift = layer.norm.gain.value[:members], layer.norm.shift.value[:members]
                hidden = torch.addcmul(shift, output, gain, out=output)
            if index < len(self.layers) - 1:
                hidden.relu_()
        return hidden

    @torch.no_grad()
    def backward(self, gradient: Tensor, *, parameters: bool = True, inputs: int = 0) -> Tensor:
        """The backward pass of the latest `forward`.

        Args:
            gradient: With respect to the outputs, (N, B', O); where B' is less than B, the other rows had no part.
            parameters: Write the gradients of all parameters; needs all members.
            inputs: How many of the input's columns, counted from its end, to return the gradient of.

        Returns:
            Summed over the members, shape (B', inputs).
        """
        room, (members, rows, _) = self._room, gradient.shape
        for index in range(len(self.layers) - 1, -1, -1):
            below = (room.outputs[index - 1] if index else room.inputs)[:members, :rows]
            norm = self.layers[index].norm
            if norm is not None:
                gradient = self._through_norm(index, norm, gradient, parameters)
            if self._is_half(index):
                room.half_gradients[index][:members, :rows].copy_(gradient)
            if parameters:
                self._parameter_gradients(index, below, gradient)
            if index:
                gradient = self._product_backward(index, gradient)
                _MASKED(gradient, below, 0.0, grad_input=gradient)
        if not inputs:
            return gradient.new_empty(rows, 0)
        columns = self._matrices[0][:members, self.input_width - inputs :]
        return torch.bmm(gradient, columns.transpose(1, 2)).sum(0)

    def _room_for(self, rows: int) -> Room:
        if rows not in self._rooms:
            while len(self._rooms) >= KEPT_ROOMS:
                self._rooms.pop(next(iter(self._rooms)))
            self._rooms[rows] = Room(self.members, rows, self._widths, self._half)
        return self._rooms[rows]

    def _is_half(self, index: int) -> bool:
        return self._half and 0 < index < len(self.layers) - 1

    def _product(self, index: int, below: Tensor, room: Room, output: Tensor) -> Tensor:
        """below W + b into `output`."""
        members, half = len(below), self._half_matrices[index]
        bias = self._biases[index][:members]
        if half is None:
            return torch.baddbmm(bias, below, self._matrices[index][:members], out=output)
        rounded = room.half[index - 1][:members].copy_(below)
        product = torch.bmm(rounded, half[:members], out=room.half_products[index][:members])
        return output.copy_(product).add_(bias)

    def _product_backward(self, index: int, gradient: Tensor) -> Tensor:
        """gradient W^T, with respect to the outputs of the layer below."""
        room, (members, rows, width) = self._room, gradient.shape
        output = room.gradients[index - 1][:members, :rows]
        half = self._half_matrices[index]
        if half is not None:
            rounded = room.half_gradients[index][:members, :rows]
            product = room.half_products[index - 1][:members, :rows]
            return output.copy_(torch.bmm(rounded, half[:members].transpose(1, 2), out=product))
        turned = self._matrices[index][:members].transpose(1, 2)
        return torch.mul(gradient, turned, out=output) if width == 1 else torch.bmm(gradient, turned, out=output)

    def _parameter_gradients(self, index: int, below: Tensor, gradient: Tensor) -> None:
        layer, room = self.layers[index], self._room
        torch.sum(gradient, 1, keepdim=True, out=layer.bias.gradient)
        if self._is_half(index):
            below = room.half[index - 1][:, : gradient.shape[1]]
            gradient = room.half_gradients[index][:, : gradient.shape[1]]
        first, second = (gradient, below) if layer.turned else (below, gradient)
        if self._is_half(index):
            layer.weight.gradient.copy_(torch.bmm(first.transpose(1, 2), second))
        else:
            torch.bmm(first.transpose(1, 2), second, out=layer.weight.gradient)

    def _through_norm(self, index: int, norm: Norm, gradient: Tensor, parameters: bool) -> Tensor:
        """From the gradient after the layer normalisation to the one before it, in place."""
        room, wanted = self._room, [True, parameters, parameters]
        for member, part in enumerate(gradient):
            sums, scale = room.sums[index][member], room.scales[index][member]
            factors = norm.gain.value[member, 0], norm.shift.value[member, 0]
            found = _NORM_BACKWARD(part, sums, [self._widths[index]], room.zeros, scale, *factors, wanted)
            part.copy_(found[0])
            if parameters:
                norm.gain.gradient[member, 0] = found[1]
                norm.shift.gradient[member, 0] = found[2]
        return gradient
