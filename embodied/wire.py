"""Messages between a simulator's process and a runtime's: a fixed binary layout over a stream socket, no pickle.

Every message is a header and a payload, little-endian. Header, 12 bytes: magic `EMBW`, version (u16), type (u16),
payload length (u32, at most `MAX_PAYLOAD`). Payloads:

| type | way | payload |
|---|---|---|
| LAYOUT | simulator, once | UTF-8 JSON: the task's `EnvSpec` |
| RESET | runtime | seed (u64) |
| STEP | runtime | action (A x f32) |
| STATE | simulator | flags (u8), reward (f64), row of the goal's entity (u32), then the arrays below |
| CLOSE | runtime | empty |
| ERROR | simulator | UTF-8 text of one line |

Arrays of a STATE: f32 state (S), entities (E x F), achieved (E x G), goal (G), executed action (A); u8 goal mask (G).
"""

from __future__ import annotations

import dataclasses
import json
import math
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from embodied.errors import EmbodiedError
from embodied.spec import EnvSpec, Layout, Term
from embodied.types import FloatArray, Goal, Observation, Step

MAGIC, VERSION = b"EMBW", 1
LAYOUT, RESET, STEP, STATE, CLOSE, ERROR = range(1, 7)
MAX_PAYLOAD = 1 << 20
_HEADER = struct.Struct("<4sHHI")
_STATE_HEAD = struct.Struct("<BdI")
_SEED = struct.Struct("<Q")
_TERMINATED, _TRUNCATED, _SUCCESS = 1, 2, 4


class WireError(EmbodiedError):
    """The other side closed the connection, fell silent, or does not speak this protocol."""


@dataclass(frozen=True)
class SimState:
    """What a simulator sends after a reset (zero reward, no flags, zero action) or a step."""

    observation: Observation
    goal: Goal
    reward: float
    terminated: bool
    truncated: bool
    success: bool
    action: FloatArray
    """(A,) as executed."""


def send(connection: socket.socket, kind: int, payload: bytes = b"") -> None:
    """Sends one message."""
    try:
        connection.sendall(_HEADER.pack(MAGIC, VERSION, kind, len(payload)) + payload)
    except OSError as error:
        raise WireError(f"the connection broke ({error})") from None


def receive(connection: socket.socket) -> tuple[int, bytes]:
    """The next message: its type and payload."""
    magic, version, kind, length = _HEADER.unpack(_read_exactly(connection, _HEADER.size))
    if magic != MAGIC or version != VERSION:
        raise WireError(f"the other side does not speak version {VERSION} of this protocol")
    if length > MAX_PAYLOAD:
        raise WireError(f"a message of {length} bytes is announced, at most {MAX_PAYLOAD} are taken")
    return kind, _read_exactly(connection, length)


def _read_exactly(connection: socket.socket, size: int) -> bytes:
    chunks, missing = [], size
    while missing:
        try:
            chunk = connection.recv(missing)
        except TimeoutError:
            raise WireError("the other side did not answer in time") from None
        except OSError as error:
            raise WireError(f"the connection broke ({error})") from None
        if not chunk:
            raise WireError("the other side closed the connection")
        chunks.append(chunk)
        missing -= len(chunk)
    return b"".join(chunks)


def encode_spec(spec: EnvSpec) -> bytes:
    """The payload of LAYOUT."""
    payload = json.dumps(dataclasses.asdict(spec), allow_nan=False).encode()
    if len(payload) > MAX_PAYLOAD:
        raise WireError("the task's layout is too large to be sent")
    return payload


def decode_spec(payload: bytes) -> EnvSpec:
    """The task behind a LAYOUT."""
    try:
        data: dict[str, Any] = json.loads(payload)
        layout = data["layout"]
        data["layout"] = Layout(
            robot=_terms(layout["robot"]),
            entity=_terms(layout["entity"]),
            goal=_terms(layout["goal"]),
            entities=tuple(layout["entities"]),
        )
        data["actions"] = _terms(data["actions"])
        for key in ("action_low", "action_high", "skills", "reward_range"):
            data[key] = None if data[key] is None else tuple(data[key])
        return EnvSpec(**data)
    except (ValueError, KeyError, TypeError) as error:
        raise WireError(f"the simulator's layout cannot be read ({error})") from None


def _terms(items: list[Mapping[str, Any]]) -> tuple[Term, ...]:
    return tuple(Term(**item) for item in items)


def encode_seed(seed: int) -> bytes:
    """The payload of RESET."""
    return _SEED.pack(seed)


def decode_seed(payload: bytes) -> int:
    """The seed behind a RESET."""
    if len(payload) != _SEED.size:
        raise WireError("a reset carries one seed of 8 bytes")
    return _SEED.unpack(payload)[0]


def encode_action(action: FloatArray) -> bytes:
    """The payload of STEP."""
    return np.asarray(action, dtype="<f4").tobytes()


def decode_action(payload: bytes, width: int) -> FloatArray:
    """The action (A,) behind a STEP."""
    if len(payload) != 4 * width:
        raise WireError(f"a step carries {width} numbers of 4 bytes, got {len(payload)} bytes")
    return np.frombuffer(payload, dtype="<f4").astype(np.float32)


def encode_state(observation: Observation, goal: Goal, step: Step | None, action_width: int) -> bytes:
    """The payload of STATE; without a step it is that of a reset."""
    flags, reward, action = 0, 0.0, np.zeros(action_width, np.float32)
    if step is not None:
        flags = _TERMINATED * step.terminated | _TRUNCATED * step.truncated | _SUCCESS * step.success
        reward, action = float(step.reward), step.action
    arrays = (observation.state, observation.entities, observation.achieved, goal.value, action)
    body = b"".join(np.ascontiguousarray(array, dtype="<f4").tobytes() for array in arrays)
    entity = observation.layout.entity_index(goal.entity)
    return _STATE_HEAD.pack(flags, reward, entity) + body + goal.mask.astype(np.uint8).tobytes()


def decode_state(payload: bytes, spec: EnvSpec) -> SimState:
    """The state behind a STATE; its arrays have exactly the layout's shapes."""
    layout = spec.layout
    entities, goal_width = len(layout.entities), layout.goal_width
    shapes = (
        (layout.state_width,),
        (entities, layout.entity_width),
        (entities, goal_width),
        (goal_width,),
        (spec.action_width,),
    )
    if len(payload) != _STATE_HEAD.size + 4 * sum(math.prod(shape) for shape in shapes) + goal_width:
        raise WireError(f"a state of {len(payload)} bytes does not fit the task's layout")
    flags, reward, entity = _STATE_HEAD.unpack_from(payload)
    if entity >= entities:
        raise WireError(f"a state speaks of entity {entity}, there are {entities}")
    arrays, offset = [], _STATE_HEAD.size
    for shape in shapes:
        count = math.prod(shape)
        flat = np.frombuffer(payload, dtype="<f4", count=count, offset=offset)
        arrays.append(flat.astype(np.float32).reshape(shape))
        offset += 4 * count
    state, features, achieved, value, action = arrays
    mask = np.frombuffer(payload, dtype=np.uint8, offset=offset).astype(bool)
    return SimState(
        observation=Observation(state, features, achieved, layout),
        goal=Goal(layout.entities[entity], value, mask),
        reward=reward,
        terminated=bool(flags & _TERMINATED),
        truncated=bool(flags & _TRUNCATED),
        success=bool(flags & _SUCCESS),
        action=action,
    )
