"""`python -m embodied.deploy bundle=<folder> driver=trace|sim`: the runtime as a process, free of torch and simulators.

Keys: `bundle=` folder; `driver=trace|sim` (trace); `seconds=` of control time; `episodes=` (sim: 10 where neither is
given); `seed=` of the first episode (2000000); `realtime=true|false` (false); `out=` JSON file for the report.
Exit codes: 0 done, 2 a user's mistake, 3 the job was not done (the report says why), 130 interrupted.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from embodied.deploy.runtime import DeployReport, deploy
from embodied.errors import JobFailed, UserError, unknown_name


def main(arguments: Sequence[str]) -> int:
    """Runs the program on `key=value` arguments and returns its exit code."""
    if any(argument in ("-h", "--help") for argument in arguments):
        print(__doc__)
        return 0
    try:
        values = _parse(arguments)
        out = values.pop("out", None)
        report = deploy(**values)
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(report.to_dict(), indent=2, allow_nan=False) + "\n", encoding="utf-8")
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except JobFailed as error:
        print(error, file=sys.stderr)
        return 3
    except OSError as error:
        print(f"{error}: choose another path", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted before the run began", file=sys.stderr)
        return 130
    for line in summary(report):
        print(line)
    for line in (*report.notes, *_complaints(report)):
        print(line, file=sys.stderr)
    if report.interrupted:
        return 130
    return 0 if report.ok else 3


def summary(report: DeployReport) -> list[str]:
    """The report in a few lines."""
    acted = {rule: count for rule, count in report.interventions.items() if count}
    lines = [f"{report.driver} on {report.task}: {report.steps} steps, {report.episodes} episodes"]
    if report.success_rate is not None:
        lines.append(f"success {report.success_rate:.3f} ({report.successes} of {report.episodes})")
    if "trace" in report.details:
        trace = report.details["trace"]
        lines.append(f"golden trace: largest difference {trace['max_abs']}, tolerance {trace['tolerance']:g}")
    acts = ", ".join(f"{rule} {count}" for rule, count in acted.items()) or "none"
    lines.append(f"safety interventions: {acts}; steps held: {report.held}")
    if report.periods_us:
        period, compute = report.periods_us, report.compute_us
        lines.append(
            f"period p50 {period['p50']:.0f} us, p99 {period['p99']:.0f} us; decision p50 {compute['p50']:.0f} us"
        )
    return lines


def _complaints(report: DeployReport) -> list[str]:
    lines = [report.failure] if report.failure else []
    if report.forbidden_modules:
        lines.append(f"the runtime's process has loaded {', '.join(report.forbidden_modules)}")
    if not report.details.get("trace", {"ok": True})["ok"]:
        lines.append("the golden trace is not reproduced within its tolerance: do not use this bundle on this machine")
    return lines


def _parse(arguments: Sequence[str]) -> dict[str, Any]:
    readers: Mapping[str, Callable[[str], Any]] = {
        "bundle": _path,
        "driver": str,
        "seconds": _positive(float),
        "episodes": _positive(int),
        "seed": _seed,
        "realtime": _truth,
        "out": _path,
    }
    values: dict[str, Any] = {}
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals or key not in readers:
            raise unknown_name("key", key, readers)
        try:
            values[key] = readers[key](text)
        except ValueError as error:
            raise UserError(f"{key}='{text}' is not valid: {error}") from None
    if "bundle" not in values:
        raise UserError("bundle=<folder> is missing: give the folder that `embodied export` made")
    return values


def _positive(number: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = number(text)
        if not (value > 0 and math.isfinite(value)):
            raise ValueError("it must be positive")
        return value

    return read


def _path(text: str) -> Path:
    if not text:
        raise ValueError("it needs a path")
    return Path(text)


def _seed(text: str) -> int:
    value = int(text)
    if not 0 <= value < 2**63:
        raise ValueError("it must be a whole number from 0")
    return value


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("it must be true or false")
    return text == "true"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
