"""What a verb hands back, and the run folder that it writes into. Imports nothing heavy."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from embodied.errors import UserError
from embodied.seal import sealed

SCHEMA = 1
RESULT_FILE = "result.json"
CONFIG_FILE = "config.yaml"
BEGUN_FILE = "begun.json"
"""What a training leaves when it begins (`embodied.run.same`)."""
FOLDER_KEYS = ("out", "run_dir", "resume")
"""Keys that say where a run lies and whether it goes on, not what it is."""
VERSIONED = ("numpy", "torch", "mujoco", "gymnasium", "gymnasium-robotics", "onnx", "onnxruntime", "hydra-core")
NO_LLM = {"calls": 0, "cached": 0, "tokens_in": 0, "tokens_out": 0, "cost": 0.0, "seconds": 0.0}


@dataclass(frozen=True)
class Outcome:
    """A verb's result: `ok` decides between exit codes 0 and 3."""

    ok: bool
    result: Mapping[str, Any] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    """For stdout."""


class RunFolder:
    """The folder of one run; made when something is first written into it."""

    def __init__(
        self, verb: str, given: str = "", label: str = "", words: Sequence[str] = (), settings: Any = None
    ) -> None:
        """
        Args:
            verb: Names the default folder.
            given: A folder that the user chose.
            label: Ends the default folder's name.
            words: The `key=value` words that the user gave.
            settings: What the run is asked for: a configuration object or a mapping.
        """
        self.verb = verb
        self.words = tuple(words)
        self._settings = settings
        self._key = "run_dir" if verb == "train" else "out"
        # To the microsecond: two runs of one second must not share a folder.
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S-%f")
        default = Path("runs") / verb / "-".join(part for part in (stamp, file_name(label)[:40]) if part)
        if given and Path(given).expanduser().exists() and not Path(given).expanduser().is_dir():
            raise UserError(f"'{given}' is a file: give the path of a folder for what this makes")
        self._path = Path(given).expanduser().absolute() if given else _fresh(default.absolute())

    @property
    def unmade(self) -> Path:
        """The path, whether it is there or not."""
        return self._path

    @property
    def asked(self) -> list[str]:
        """The keys that the user gave."""
        return [word.partition("=")[0] for word in self.words]

    @property
    def path(self) -> Path:
        """The path, after making the folder.

        Raises:
            UserError: It cannot be made.
        """
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unmakeable(error) from None
        return self._path

    def refuse_others(self, resume: bool | None, about: Mapping[str, Any], leaves: Sequence[str] = ()) -> None:
        """Refuses a folder that holds what another run left, so that it is not written over.

        Args:
            resume: Whether a run of the same verb is to be gone on with; None: the verb has no such thing, and makes
                what it made there again where it is asked for the same.
            about: What the result of such a run has to say of itself: name and value.
            leaves: What the verb writes there besides, by name.

        Raises:
            UserError: The folder is another run's.
        """
        names = (RESULT_FILE, CONFIG_FILE, BEGUN_FILE)
        taken = [name for name in names if (self._path / name).exists()]
        others = [name for name in leaves if (self._path / name).exists()] if not taken else []
        if not taken and not others:
            return
        holder, result = self._holder()
        same = holder in (None, self.verb) and all(result.get(name, value) == value for name, value in about.items())
        differs = self.other_setting() if same and holder and resume is None else ""
        if same and not others and (resume or (resume is None and holder is not None and not differs)):
            return
        what = f"a run of 'embodied {holder}'" if holder else f"{', '.join(taken + others)} of something else"
        with_others = f" with other settings ({differs})" if differs else ""
        go_on = "go on with resume=auto, or " if same and holder and resume is not None else ""
        raise UserError(f"'{self._path}' holds {what}{with_others} already: {go_on}choose another {self._key}=")

    def other_setting(self) -> str:
        """The first setting in which the folder's run differs from this one, in words; empty where none does."""
        saved, ours = self._saved_settings(), _settings_of(self._settings)
        if saved is None:
            return f"its {CONFIG_FILE} does not say which"
        for name in [*ours, *(name for name in saved if name not in ours)]:
            before, now = saved.get(name), ours.get(name)
            if name not in FOLDER_KEYS and before != now:
                return f"{name}={_shown(before)}, not {_shown(now)}"
        return ""

    def _saved_settings(self) -> Mapping[str, Any] | None:
        """The settings that `write_config` left; None where they cannot be read."""
        try:
            text = (self._path / CONFIG_FILE).read_text("utf-8")
            data = _parsed(text)
            saved = data["config"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return saved if isinstance(saved, dict) else None

    def _holder(self) -> tuple[str | None, Mapping[str, Any]]:
        """The verb that the folder's files are of, None where they do not say, and its result where there is one."""
        try:
            result = json.loads((self._path / RESULT_FILE).read_bytes())
        except (OSError, ValueError):
            result = None
        if isinstance(result, dict) and result.get("verb"):
            return str(result["verb"]), result
        try:
            text = (self._path / CONFIG_FILE).read_text("utf-8", "replace")
        except OSError:
            text = ""
        # Without a parser: where PyYAML is not installed the file is JSON.
        said = re.search(r'^\s*"?verb"?: "?(\w+)', text, re.MULTILINE)
        if said:
            return said.group(1), {}
        return ("train" if (self._path / BEGUN_FILE).exists() else None), {}

    def refuse_unmakeable(self) -> None:
        """Makes the folder where it is missing, to see whether that can be done, and takes it away again.

        Raises:
            UserError: It cannot be made, or nothing can be written into it.
        """
        missing = [path for path in (self._path, *self._path.parents) if not path.exists()]
        made = []
        try:
            for path in reversed(missing):
                path.mkdir()
                made.append(path)
            if not os.access(self._path, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, "it cannot be written to")
        except OSError as error:
            raise self._unmakeable(error) from None
        finally:
            for path in reversed(made):
                with contextlib.suppress(OSError):
                    path.rmdir()

    def _unmakeable(self, error: OSError) -> UserError:
        return UserError(f"cannot make the folder '{self._path}': {error.strerror}; choose another {self._key}=")

    def write_config(self, config: Any = None) -> Path:
        """Writes `config.yaml`: the resolved configuration (the run's settings where None), with commit and versions.

        Where PyYAML is not installed, as on a robot's computer, it is written in the part of YAML that is JSON.
        """
        data = {
            "verb": self.verb, "git_commit": git_commit(), "versions": versions(), "arguments": list(self.words),
            "config": _settings_of(self._settings if config is None else config),
        }  # fmt: skip
        if find_spec("yaml") is None:
            return self._write(CONFIG_FILE, json.dumps(data, indent=2) + "\n")
        from .compose import to_yaml

        return self._write(CONFIG_FILE, to_yaml(data))

    def discard(self, names: Sequence[str]) -> None:
        """Takes away what an earlier run left under these names, so that it does not pass for this run's."""
        for name in names:
            path = self._path / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def write_json(self, name: str, data: Mapping[str, Any]) -> Path:
        """Writes `name` into the folder, whole or not at all, with a checksum of its contents."""
        text = json.dumps(sealed(plain(data)), indent=2, ensure_ascii=False, allow_nan=False)
        return self._write(name, text + "\n")

    def _write(self, name: str, text: str) -> Path:
        target = self.path / name
        temporary = target.with_name(f".{name}.tmp")
        # Words that are no valid UTF-8 come as lone surrogates; JSON's and YAML's own escapes keep them.
        temporary.write_bytes(text.encode("utf-8", "backslashreplace"))
        os.replace(temporary, target)
        return target


def _fresh(path: Path) -> Path:
    candidate, number = path, 2
    while candidate.exists():
        candidate, number = path.with_name(f"{path.name}-{number}"), number + 1
    return candidate


def _settings_of(config: Any) -> dict[str, Any]:
    return plain(config if isinstance(config, Mapping) else asdict(config))


def _parsed(text: str) -> Any:
    """What `write_config` wrote.

    Raises:
        ValueError: It is something else, or YAML that nothing here can read.
    """
    if text.startswith("{") or find_spec("yaml") is None:
        return json.loads(text)
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = text or "''"
    return text if len(text) <= 60 else f"{text[:57]}..."


def file_name(text: str) -> str:
    """The text as part of a file's name: without colons, slashes and the like."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-.")


def plain(data: Any) -> Any:
    """JSON's own types: arrays become lists, numbers that JSON cannot say become null, paths become text."""
    if isinstance(data, Mapping):
        return {str(name): plain(value) for name, value in data.items()}
    if isinstance(data, list | tuple | set | frozenset):
        return [plain(value) for value in data]
    if isinstance(data, np.ndarray):
        return plain(data.tolist())
    if isinstance(data, np.generic):
        return plain(data.item())
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    return str(data) if isinstance(data, Path) else data


def _children_seconds() -> float:
    times = os.times()
    return times.children_user + times.children_system


_INHERITED_S = _children_seconds()
"""What children of the process had used before this program took it over (a shell that ends in `exec`)."""


def cpu_seconds() -> float:
    """User and system seconds of this process and of its finished children."""
    times = os.times()
    return times.user + times.system + _children_seconds() - _INHERITED_S


def versions() -> dict[str, str]:
    """Versions of the packages that decide what a run computes, where installed."""
    found = {}
    for name in ("embodied-control", *VERSIONED):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def git_commit() -> str | None:
    """The commit of the checkout that this program runs from, with `+` where it was changed; None in a wheel."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    try:
        run = ["git", "-C", str(root)]
        commit = subprocess.run([*run, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True)
        dirty = subprocess.run([*run, "status", "--porcelain"], capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return commit.stdout.strip() + ("+" if dirty.stdout.strip() else "")
