"""Reads a data set of others once in a process of its own, because a damaged HDF5 file can make the library run for
ever or crash; what that process got through is safe to read again here.

`python -m embodied.learning.datasets.probe <file> <length>` is that process; it prints a line of JSON for each step.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embodied.learning.datasets.layouts import FileLayout, UnknownLayout, layout_named
from embodied.learning.datasets.seal import Record
from embodied.learning.datasets.sources import Broken, Hdf5Source, Lacking, Stored, layout_of, open_hdf5, open_padded

PATIENCE_S = 60.0
"""After so long without a step the process is given up."""


@dataclass
class Probe:
    """What the other process found."""

    layout: str = ""
    env_id: str | None = None
    listed: list[int] = field(default_factory=list)
    problems: dict[int, str | None] = field(default_factory=dict)
    """For each episode that was tried what is wrong with it; None where it is intact."""
    lacking: str = ""
    """What the first episode that is none of a goal task lacks."""


class OthersSource:
    """Episodes that other software recorded."""

    header: Record | None = None

    def __init__(self, file: Path, length: int | None, probe: Probe) -> None:
        self._probe = probe
        self.layout: FileLayout = layout_named(probe.layout)
        self._source = _source(file, length)

    def env_id(self, file: Path) -> str | None:
        del file
        return self._probe.env_id

    def numbers(self) -> list[int]:
        return self._probe.listed

    def load(self, number: int) -> Stored:
        problem = self._probe.problems.get(number, "HDF5 does not get through it")
        if problem is not None:
            raise Lacking(problem) if problem == self._probe.lacking else Broken(problem)
        return self._source.load(number)

    def close(self) -> None:
        self._source.close()


def probe(file: Path, length: int | None) -> Probe:
    """Lets another process read the file; `length`: what it should have, where it is truncated.

    Raises:
        UnknownLayout: It has neither layout.
        Broken: It does not tell which episodes there are.
    """
    found = Probe()
    for step in _steps(file, length):
        if "unknown" in step:
            raise UnknownLayout(step["unknown"])
        if "broken" in step:
            raise Broken(step["broken"])
        if "listed" in step:
            found.layout, found.env_id, found.listed = step["layout"], step["env_id"], step["listed"]
            continue
        found.problems[step["episode"]] = step["problem"]
        if step["lacking"] and not found.lacking:
            found.lacking = step["problem"]
    if not found.layout:
        raise Broken("HDF5 does not get through it")
    return found


def _steps(file: Path, length: int | None) -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-m", __spec__.name, str(file), str(length or "")]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, env=paths) as process:
        assert process.stdout is not None
        try:
            rest = b""
            while select.select([process.stdout], [], [], PATIENCE_S)[0]:
                data = os.read(process.stdout.fileno(), 65536)
                *lines, rest = (rest + data).split(b"\n")
                yield from map(json.loads, lines)
                if not data:
                    return
        finally:
            process.kill()


def _source(file: Path, length: int | None) -> Hdf5Source:
    files = [open_hdf5(file)] if length is None else open_padded(file, length)
    return Hdf5Source(layout_of(files[0]), files)


def _report(file: Path, length: int | None) -> Iterator[dict[str, Any]]:
    try:
        source = _source(file, length)
        listed = source.numbers()
        yield {"layout": source.layout.name, "env_id": source.env_id(file), "listed": listed}
    except UnknownLayout as error:
        yield {"unknown": str(error)}
        return
    except Broken as error:
        yield {"broken": str(error)}
        return
    for number in listed:
        problem, lacking = None, False
        try:
            source.load(number)
        except Broken as error:
            problem, lacking = str(error), isinstance(error, Lacking)
        yield {"episode": number, "problem": problem, "lacking": lacking}


def main() -> None:
    """The other process."""
    file, length = sys.argv[1:]
    for step in _report(Path(file), int(length) if length else None):
        print(json.dumps(step), flush=True)
    os._exit(0)  # whatever HDF5 has left to do on a damaged file


if __name__ == "__main__":
    main()
