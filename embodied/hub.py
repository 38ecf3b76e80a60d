"""Whether files of a model hub are here, or can be had: answered within seconds, without retries."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit

from embodied.errors import UserError

HUB = "huggingface.co"
CONNECT_S = 2.0
"""A hub that does not answer a connection within this is not there."""
_YES = ("1", "on", "yes", "true")
_PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


def offline() -> bool:
    """Whether the user said so: HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE as they are now, not as they were at import."""
    return any(os.environ.get(name, "").lower() in _YES for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


def cached(repository: str, filename: str) -> Path | None:
    """A file of a hub repository that lies in the local cache."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(repository, filename)
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) else None


FILES = "name the file or folder: pretrained=<file> or local-dir:<folder>"
FOLDER = "name its folder: model=<folder>"


def fetch(repository: str, filename: str, remedy: str = FILES) -> Path:
    """A file of a hub repository: from the cache, else downloaded; `remedy` says how else to give it.

    Raises:
        UserError: It is neither in the cache nor to be had.
    """
    there = cached(repository, filename)
    if there is not None:
        return there
    what = f"{repository}/{filename}"
    require(HUB, what, remedy)
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(repository, filename))
    except Exception as error:  # the hub's client has a dozen kinds; each means that there is no file
        raise UserError(f"{what} could not be downloaded ({type(error).__name__}); {_LATER} {remedy}") from None


def require(host: str, what: str, remedy: str = FILES) -> None:
    """Nothing, where `host` can be asked for `what`; else a line that says why not.

    Raises:
        UserError: The user asked for offline work, or the host does not answer.
    """
    if offline():
        raise UserError(f"{what} is not in the local cache and HF_HUB_OFFLINE is set; {_LATER} {remedy}")
    host, port = _reached_through(host)
    problem = _connected(host, port)
    if problem:
        raise UserError(f"{what} is not in the local cache and {host} does not answer ({problem}); {_LATER} {remedy}")


_LATER = "download it where there is a network and"


def _connected(host: str, port: int) -> str:
    """Why no connection is made within `CONNECT_S`; empty where one is.

    A thread waits, because a name may be looked for much longer than a connection is waited for.
    """
    found: list[str] = []

    def connect() -> None:
        try:
            socket.create_connection((host, port), timeout=CONNECT_S).close()
            found.append("")
        except OSError as error:
            found.append(str(error))

    waiting = threading.Thread(target=connect, daemon=True)
    waiting.start()
    waiting.join(CONNECT_S)
    return found[0] if found else f"no answer within {CONNECT_S:g} s"


def _reached_through(host: str) -> tuple[str, int]:
    """Host and port that a request to this host connects to: those of the proxy where one is set."""
    proxy = next((os.environ[name] for name in _PROXIES if os.environ.get(name)), "")
    parts = urlsplit(proxy if "//" in proxy else f"//{proxy}")
    return (parts.hostname, parts.port or 8080) if parts.hostname else (host, 443)
