"""One POST of JSON over HTTP with hard limits: time to connect, between bytes and in all, size; no redirects.

Everything that may wait without end, name look-up included, happens in a thread that is waited for only so long.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit

from embodied.planning.asking import ModelError

CHUNK = 65_536
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class HttpLimits:
    """How long and how much; seconds and bytes."""

    connect_s: float = 2.0
    """A server that takes no connection within this is not there."""
    read_s: float = 60.0
    """Longest silence while an answer is waited for."""
    total_s: float = 90.0
    """From the request to the answer's last byte."""
    max_bytes: int = 1_000_000
    """Of an answer."""


@dataclass(frozen=True)
class Response:
    """Status, headers (names in lower case) and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class _Exchange:
    """What the waiting thread and the working one share."""

    connected: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    sock: socket.socket | None = None
    response: Response | None = None
    error: BaseException | None = None
    too_large: bool = False

    def abort(self) -> None:
        """Ends the working thread's wait for bytes."""
        if self.sock is not None:
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)


class _Telling(http.client.HTTPConnection):
    """Tells when it is connected, and waits for bytes longer than for the connection."""

    def __init__(self, host: str, *, exchange: _Exchange, limits: HttpLimits, **options: Any) -> None:
        super().__init__(host, **{**options, "timeout": limits.connect_s})
        self._exchange, self._limits = exchange, limits

    def connect(self) -> None:
        super().connect()
        self._exchange.sock = self.sock
        self._exchange.connected.set()
        self.sock.settimeout(self._limits.read_s)


class _TellingTls(_Telling, http.client.HTTPSConnection):
    """The same under TLS."""


class _HttpHandler(urllib.request.AbstractHTTPHandler):
    """Opens http and https with the connections above."""

    def __init__(self, exchange: _Exchange, limits: HttpLimits) -> None:
        super().__init__()
        self._options = {"exchange": exchange, "limits": limits}

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_Telling, **self._options), request)  # type: ignore[arg-type]

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_TellingTls, **self._options), request)  # type: ignore[arg-type]

    http_request = https_request = urllib.request.AbstractHTTPHandler.do_request_


def post_json(url: str, data: Any, headers: Mapping[str, str], limits: HttpLimits) -> Response:
    """The server's response, whatever its status; a redirect is a response like any other and is not followed.

    Args:
        url: http or https; proxies of the environment are used except for this machine itself.
        data: JSON data.
        headers: Beside those of the content.
        limits: Bounds on time and size.

    Raises:
        ModelError: `connection` (nobody there), `timeout`, `reset`, `too_large` or `bad_response`.
    """
    exchange, began = _Exchange(), time.monotonic()
    body = json.dumps(data, ensure_ascii=True).encode("ascii")
    sent = {"Content-Type": "application/json", "Accept": "application/json", **headers}
    request = urllib.request.Request(url, body, sent, method="POST")
    threading.Thread(target=_work, args=(exchange, request, limits), daemon=True).start()
    try:
        return _waited(exchange, limits, began, urlsplit(url).netloc)
    finally:
        exchange.abort()


def _work(exchange: _Exchange, request: urllib.request.Request, limits: HttpLimits) -> None:
    try:
        with _opener(exchange, request.host or "", limits).open(request) as response:
            body = bytearray()
            while len(body) <= limits.max_bytes and (piece := response.read1(CHUNK)):
                body += piece
            exchange.too_large = len(body) > limits.max_bytes
            missing = response.length
            if missing and not exchange.too_large:
                raise http.client.IncompleteRead(b"", missing)
            found = {name.lower(): value for name, value in response.headers.items()}
            exchange.response = Response(response.status, found, bytes(body))
    except BaseException as error:  # handed to the thread that waits
        exchange.error = error
    finally:
        exchange.done.set()
        exchange.connected.set()


def _opener(exchange: _Exchange, host: str, limits: HttpLimits) -> urllib.request.OpenerDirector:
    """Knows http, https and proxies; no redirects, no other schemes, no errors by status."""
    opener = urllib.request.OpenerDirector()
    if (urlsplit(f"//{host}").hostname or "") not in LOOPBACK:
        opener.add_handler(urllib.request.ProxyHandler())
    opener.add_handler(_HttpHandler(exchange, limits))
    return opener


def _waited(exchange: _Exchange, limits: HttpLimits, began: float, where: str) -> Response:
    if not exchange.connected.wait(min(limits.connect_s, limits.total_s)):
        raise ModelError("connection", f"{where} takes no connection within {limits.connect_s:g} s")
    if not exchange.done.wait(max(0.0, limits.total_s - (time.monotonic() - began))):
        raise ModelError("timeout", f"{where} did not answer within {limits.total_s:.3g} s")
    if exchange.too_large:
        raise ModelError("too_large", f"{where} answers with more than {limits.max_bytes} bytes")
    if exchange.error is not None:
        raise _told(exchange, where, limits) from None
    assert exchange.response is not None
    return exchange.response


def _told(exchange: _Exchange, where: str, limits: HttpLimits) -> ModelError:
    """The error of the working thread, as its class and a line."""
    error = exchange.error
    cause = error.reason if isinstance(error, URLError) else error
    words = (getattr(cause, "strerror", None) or str(cause) or type(cause).__name__).splitlines()[0][:120]
    if exchange.sock is None:
        return ModelError("connection", f"{where} cannot be reached ({words})")
    if isinstance(cause, TimeoutError):
        return ModelError("timeout", f"{where} was silent for {limits.read_s:g} s")
    if isinstance(cause, http.client.IncompleteRead):
        return ModelError("reset", f"{where} broke its answer off")
    if isinstance(cause, OSError):
        return ModelError("reset", f"{where} broke the connection off ({words})")
    return ModelError("bad_response", f"{where} does not speak HTTP as it should ({type(cause).__name__})")
