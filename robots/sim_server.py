"""A task in a process of its own, for a runtime that must not load a simulator: `python -m robots.sim_server`.

Listens on the loopback interface only, serves one client and ends with it. The messages are those of `embodied.wire`.
The first line on stdout is the port.
"""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Sequence

from embodied import wire
from embodied.errors import EmbodiedError, UserError
from embodied.protocols import Env

_ACCEPT_TIMEOUT_S = 60.0
"""How long to wait for the client before going away."""


def serve(env: Env, connection: socket.socket) -> None:
    """Answers one client until it says CLOSE or is gone.

    A failure inside the environment is sent as an ERROR line and raised.
    """
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    wire.send(connection, wire.LAYOUT, wire.encode_spec(env.spec))
    width, running = env.spec.action_width, False
    while True:
        try:
            kind, payload = wire.receive(connection)
        except wire.WireError:
            return
        if kind == wire.CLOSE:
            return
        try:
            if kind == wire.RESET:
                observation = env.reset(wire.decode_seed(payload))
                reply, running = wire.encode_state(observation, env.goal, None, width), True
            elif kind == wire.STEP and running:
                step = env.step(wire.decode_action(payload, width))
                reply = wire.encode_state(step.observation, env.goal, step, width)
                running = not (step.terminated or step.truncated)
            else:
                raise wire.WireError(f"a message of type {kind} does not fit here (an episode starts with a reset)")
        except Exception as error:
            wire.send(connection, wire.ERROR, _one_line(error).encode())
            raise
        try:
            wire.send(connection, wire.STATE, reply)
        except wire.WireError:
            return


def main(arguments: Sequence[str] | None = None) -> int:
    """Hosts the task; 0 when the client has gone, 2 when the task cannot be made, 3 when it failed."""
    parser = argparse.ArgumentParser(prog="python -m robots.sim_server", description=__doc__.splitlines()[0])
    parser.add_argument("--task", required=True, help="name of a registered task")
    parser.add_argument("--port", type=int, default=0, help="port on the loopback interface; 0: any free one")
    options = parser.parse_args(arguments)
    try:
        env = _make_env(options.task)
        return _host(env, options.port)
    except UserError as error:
        print(_one_line(error), file=sys.stderr)
        return 2
    except (EmbodiedError, OSError) as error:
        print(_one_line(error), file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130


def _make_env(task: str) -> Env:
    try:
        from robots.registry import make_env
    except ModuleNotFoundError as error:
        raise UserError(
            f"the simulator needs '{error.name}', which is not installed: pip install 'embodied-control[sim]'"
        ) from None
    return make_env(task)


def _host(env: Env, port: int) -> int:
    try:
        with socket.create_server(("127.0.0.1", port), backlog=1) as listener:
            listener.settimeout(_ACCEPT_TIMEOUT_S)
            print(listener.getsockname()[1], flush=True)
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                raise UserError(f"no client came within {_ACCEPT_TIMEOUT_S:.0f} s") from None
        with connection:
            connection.settimeout(None)
            serve(env, connection)
    finally:
        env.close()
    return 0


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
