"""A policy module as one self-contained ONNX file: opset 18, IR at most 10, no external data, no machine paths."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path

import onnx
import torch

from embodied.bundle_format import ACTION_OUTPUT, GOAL_INPUT, OBSERVATION_INPUT

OPSET = 18
MAX_IR_VERSION = 10


def write_onnx(module: torch.nn.Module, observation_width: int, goal_width: int, path: Path) -> onnx.ModelProto:
    """Writes `module(observation (B, S+F), goal (B, G)) -> action (B, A)` and returns what was written.

    The batch size is free. The module itself is left as it is (device, training mode).
    """
    inference = copy.deepcopy(module).to(device="cpu", dtype=torch.float32).eval()
    example = (torch.zeros(2, observation_width), torch.zeros(2, goal_width))
    batch = torch.export.Dim("batch")
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            inference,
            example,
            input_names=[OBSERVATION_INPUT, GOAL_INPUT],
            output_names=[ACTION_OUTPUT],
            opset_version=OPSET,
            dynamo=True,
            external_data=False,
            dynamic_shapes=({0: batch}, {0: batch}),
            verbose=False,
        )
    model = _plain(program.model_proto)
    path.write_bytes(model.SerializeToString(deterministic=True))
    onnx.checker.check_model(onnx.load(path), full_check=True)
    return model


def _plain(model: onnx.ModelProto) -> onnx.ModelProto:
    """Without stack traces, paths and names of the machine that exported it; the IR capped for older runtimes."""
    model.ir_version = min(model.ir_version, MAX_IR_VERSION)
    del model.metadata_props[:]
    graph = model.graph
    for item in (graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        item.doc_string = ""
        del item.metadata_props[:]
    if model.functions or any(entry.domain not in ("", "ai.onnx") for entry in model.opset_import):
        raise ValueError("the exported graph uses operators outside the ONNX standard")
    if any(tensor.data_location != onnx.TensorProto.DEFAULT for tensor in graph.initializer):
        raise ValueError("the exported graph keeps weights outside its file")
    return model
