"""The same perceptrons as `stacked.py`, by C code: see `native.py`.

Half of the time of an eager update is spent between its products: on hundreds of small calls, and on intermediate
results that leave the caches before they are used. `stacked.c` does a forward or a backward pass in one call. Where no
compiler works there is `StackedMlp`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from embodied.learning.native import library
from embodied.learning.stacked import KEPT_ROOMS, Layer, StackedMlp

BLOCK, PANEL = 96, 32
"""Rows of a block and columns of a panel in `stacked.c`, at most."""


class _Layer(ctypes.Structure):
    """`Layer` of `stacked.c`."""

    _fields_ = [
        *((name, ctypes.c_long) for name in ("input_width", "output_width", "turned", "normed", "half")),
        *((name, ctypes.c_void_p) for name in ("weight", "bias", "gain", "shift")),
        *((name, ctypes.c_void_p) for name in ("weight_slope", "bias_slope", "gain_slope", "shift_slope")),
        *((name, ctypes.c_void_p) for name in ("panels", "turned_panels", "base", "centred")),
        *((name, ctypes.c_void_p) for name in ("sums", "scales", "outputs")),
    ]


class _Scratch(ctypes.Structure):
    """`Scratch` of `stacked.c`."""

    _fields_ = [("slopes", ctypes.c_void_p * 2), ("panels", ctypes.c_void_p), ("pairs", ctypes.c_void_p)]


class CompiledMlp:
    """`StackedMlp` in C, method for method; results differ in the last bits. bfloat16 products stay float32 sums."""

    def __init__(self, layers: Sequence[Layer], half: bool = False, backwards: bool = True) -> None:
        """Args:
        layers: First to last.
        half: As in `StackedMlp`.
        backwards: Whether there will be backward passes.

        Raises:
            RuntimeError: There is no compiled code, or none for `half`.
        """
        code = library()
        if code is None or (half and not code.has_half()):
            raise RuntimeError("there is no compiled code for this: use StackedMlp")
        self.layers = tuple(layers)
        self.members, self.input_width, _ = layers[0].matrix.shape
        self._code, self._backwards = code, backwards
        self._kept: list[Tensor] = []
        self._structs = (_Layer * len(layers))(*(self._struct(index, half) for index in range(len(layers))))
        widest = max(max(layer.matrix.shape[1:]) for layer in layers) + PANEL
        slopes = (ctypes.c_void_p * 2)(self._keep(BLOCK, widest), self._keep(BLOCK, widest))
        self._scratch = _Scratch(slopes, self._keep(BLOCK, widest), self._keep(BLOCK, widest))
        self._rooms: dict[int, _Room] = {}
        self._room: _Room
        self.refresh()

    def share_rooms(self, other: CompiledMlp) -> None:
        """Use the other's memory, for networks of one shape that are never between forward and backward together."""
        self._rooms = other._rooms

    def refresh(self) -> None:
        """Take in the parameters as they are now."""
        self._code.refresh(self._structs, len(self.layers), self.members, int(self._backwards))

    def forward(self, inputs: Tensor, first: int | None = None) -> Tensor:
        """Outputs of the `first` members (all where None): inputs (B, I) to (N, B, O), valid until the next call."""
        members, rows = self.members if first is None else first, len(inputs)
        if not 0 < members <= self.members:
            raise ValueError(f"there are {self.members} members, not {members}")
        if rows not in self._rooms:
            while len(self._rooms) >= KEPT_ROOMS:
                self._rooms.pop(next(iter(self._rooms)))
            self._rooms[rows] = _Room(self.members, rows, self.layers)
        self._room = room = self._rooms[rows]
        room.inputs = inputs = inputs.contiguous()
        room.lend(self._structs)
        self._code.forward(
            self._structs, len(self.layers), members, inputs.data_ptr(), rows, ctypes.byref(self._scratch)
        )
        return room.outputs[-1].view(-1)[: members * rows * room.outputs[-1].shape[2]].view(members, rows, -1)

    def backward(self, gradient: Tensor, *, parameters: bool = True, inputs: int = 0) -> Tensor:
        """The backward pass of the latest `forward`; arguments and result as in `StackedMlp.backward`."""
        room, (members, used, _) = self._room, gradient.shape
        gradient, result = gradient.contiguous(), torch.zeros(used, inputs)
        room.lend(self._structs)
        self._code.backward(
            self._structs,
            len(self.layers),
            members,
            room.inputs.data_ptr(),
            len(room.inputs),
            used,
            gradient.data_ptr(),
            int(parameters),
            result.data_ptr(),
            inputs,
            ctypes.byref(self._scratch),
        )
        return result

    def _keep(self, *shape: int) -> int:
        """Address of new memory that lives as long as this object."""
        self._kept.append(torch.zeros(shape))
        return self._kept[-1].data_ptr()

    def _struct(self, index: int, half: bool) -> _Layer:
        layer, norm = self.layers[index], self.layers[index].norm
        _, inputs, outputs = layer.matrix.shape
        pairs = [layer.weight, layer.bias, *((norm.gain, norm.shift) if norm else ())]
        if not all(part.is_contiguous() for pair in pairs for part in (pair.value, pair.gradient)):
            raise ValueError("parameters and gradients have to be contiguous")
        if layer.turned and norm:
            raise ValueError("a turned layer cannot be normalised")
        struct = _Layer(inputs, outputs, layer.turned, norm is not None, half and 0 < index < len(self.layers) - 1)
        for name, pair in zip(("weight", "bias", "gain", "shift"), pairs, strict=False):
            setattr(struct, name, pair.value.data_ptr())
            setattr(struct, f"{name}_slope", pair.gradient.data_ptr())
        struct.panels = self._keep(self.members, self._code.panel_size(inputs, outputs))
        struct.turned_panels = self._keep(self.members, self._code.panel_size(outputs, inputs))
        struct.base = self._keep(self.members, outputs)
        if norm:
            struct.centred = self._keep(inputs, outputs)
        return struct


class _Room:
    """What a forward pass leaves for its backward pass, for batches of one size."""

    def __init__(self, members: int, rows: int, layers: Sequence[Layer]) -> None:
        self.inputs = torch.empty(0)
        widths = [layer.matrix.shape[2] for layer in layers]
        self.outputs = [torch.empty(members, rows, width) for width in widths]
        normed = [layer.norm is not None for layer in layers]
        self._sums = [
            torch.empty(members, rows, width if there else 0) for width, there in zip(widths, normed, strict=True)
        ]
        self._scales = [torch.empty(members, rows if there else 0) for there in normed]

    def lend(self, structs: ctypes.Array[_Layer]) -> None:
        """Tells the layers where their results are to lie; one address is enough to see whether they know."""
        if structs[0].outputs == self.outputs[0].data_ptr():
            return
        for struct, sums, scales, outputs in zip(structs, self._sums, self._scales, self.outputs, strict=True):
            struct.sums, struct.scales, struct.outputs = sums.data_ptr(), scales.data_ptr(), outputs.data_ptr()


Stack = StackedMlp | CompiledMlp


def make_stack(
    layers: Sequence[Layer],
    half: bool = False,
    compiled: bool = True,
    backwards: bool = True,
    like: Stack | None = None,
) -> Stack:
    """The fastest there is here.

    Args:
        layers: First to last.
        half: See `StackedMlp`.
        compiled: Whether compiled code may be used.
        backwards: Whether there will be backward passes.
        like: One of the same shape whose memory may be used: they are never between forward and backward together.
    """
    code = library() if compiled else None
    if code is None or (half and not code.has_half()):
        eager = StackedMlp(layers, half)
        if isinstance(like, StackedMlp):
            eager.share_rooms(like)
        return eager
    stack = CompiledMlp(layers, half, backwards)
    if isinstance(like, CompiledMlp):
        stack.share_rooms(like)
    return stack
