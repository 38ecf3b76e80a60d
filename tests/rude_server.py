"""A real HTTP server on loopback that answers questions to a language model as badly as it is told to."""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

JSON = "application/json"


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: Any


Manner = Callable[[socket.socket, Asked], None]
"""Answers one request on its connection."""


def completion(content: Any, reasoning: str | None = None, finish: str = "stop", **usage: Any) -> dict[str, Any]:
    """A chat completion with one choice."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    told = {"prompt_tokens": 100, "completion_tokens": 20} | usage
    return {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": told}  # fmt: skip


def raw(status: int, body: bytes, kind: str = JSON, length: int | None = None, **headers: str) -> Manner:
    """A response of these bytes; a header's name is written with `_` for `-`."""

    def manner(connection: socket.socket, asked: Asked) -> None:
        size = len(body) if length is None else length
        lines = [f"HTTP/1.1 {status} x", f"Content-Type: {kind}", f"Content-Length: {size}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)

    return manner


def says(content: Any, reasoning: str | None = None, finish: str = "stop", kind: str = JSON, **usage: Any) -> Manner:
    """An answer with this content."""
    return raw(200, json.dumps(completion(content, reasoning, finish, **usage)).encode(), kind)


def status(number: int, message: str = "no", **headers: str) -> Manner:
    """An error as providers write it."""
    return raw(number, json.dumps({"error": {"message": message}}).encode(), JSON, None, **headers)


def silent(connection: socket.socket, asked: Asked) -> None:
    """Takes the request and says nothing until the other side gives up."""
    connection.settimeout(5.0)
    with contextlib.suppress(OSError):
        connection.recv(1)


def drips(connection: socket.socket, asked: Asked) -> None:
    """Sends a byte now and then, so that no single wait is long."""
    with contextlib.suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        for _ in range(500):
            connection.sendall(b" ")
            time.sleep(0.01)


def resets(connection: socket.socket, asked: Asked) -> None:
    """Breaks the connection off with a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def endless(connection: socket.socket, asked: Asked) -> None:
    """Sends megabytes."""
    with contextlib.suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        for _ in range(64):
            connection.sendall(b'{"a": "' + b"x" * 65_536)


def noise(connection: socket.socket, asked: Asked) -> None:
    """Is no HTTP at all."""
    connection.sendall(b"\x00\x01\x02 nonsense\r\n\r\n")


@dataclass
class RudeServer:
    """Answers the n-th request in the n-th manner, and all later ones in the last."""

    manners: list[Manner] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def behaves(self, *manners: Manner) -> RudeServer:
        """From now on."""
        self.manners, self.asked = list(manners), []
        return self

    def handle(self, connection: socket.socket) -> None:
        asked = _read(connection)
        if asked is not None:
            self.asked.append(asked)
            self.manners[min(len(self.asked), len(self.manners)) - 1](connection, asked)


@contextlib.contextmanager
def serving() -> Any:
    """A running `RudeServer`."""
    rude = RudeServer()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            rude.handle(self.request)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads, block_on_close, allow_reuse_address = True, False, True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Clients that go away are no news."""

    with Server(("127.0.0.1", 0), Handler) as server:
        rude.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield rude
        server.shutdown()


def _read(connection: socket.socket) -> Asked | None:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65_536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65_536)
    return Asked(first.split()[1], headers, json.loads(body) if body else None)
