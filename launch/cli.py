"""The command line: `embodied <verb> key=value ...`.

Exit codes: 0 the verb did what it promised; 2 a user's mistake, one line on stderr, nothing on stdout; 3 a job
honestly not done, with result.json; 130 Ctrl-C, after saving.
"""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from embodied.errors import EmbodiedError, JobFailed, UserError, unknown_name

from .catalogue import check_controller, check_task
from .keys import help_text, light_config, with_hidden
from .outcome import CONFIG_FILE, NO_LLM, RESULT_FILE, SCHEMA, Outcome, RunFolder, cpu_seconds

STARTED = time.time()
HELP = ("--help", "-h", "help")


@dataclass(frozen=True)
class Verb:
    """Where a verb lives: a module with `KEYS` (a dataclass) and `run(config, folder) -> Outcome`.

    It may have `complete(arguments)`, which adds to the words that the user gave, and `LEAVES`, names of what it writes
    beside settings and result.
    """

    module: str
    summary: str
    light: bool = False
    """Runs where only numpy is installed: its keys are read without Hydra."""
    deltas: tuple[str, ...] = ()
    """Keys whose value names a YAML of deltas, weakest first."""
    controller: str = ""
    """The key whose value is a controller: `zoo:<name>` or a folder."""


VERBS: dict[str, Verb] = {
    "demo": Verb("demo", "The main job, end to end: train, tell, do, export, deploy."),
    "train": Verb("train", "Trains a controller.", deltas=("task", "preset"), controller="init_from"),
    "evaluate": Verb("evaluate", "Success rate with confidence interval, without exploration.", controller="run"),
    "describe": Verb("describe", "A scene to text and facts."),
    "plan": Verb(
        "plan", "An instruction and a scene to a plan; with execute=true the robot carries it out.", controller="run"
    ),
    "export": Verb("export", "A trained controller to a deployment bundle, proved equal.", controller="run"),
    "deploy": Verb("deploy", "Runs a bundle on a driver, without torch.", light=True),
    "fit": Verb("fit", "A describer's model from rendered scenes, or the embedded planner's from taught sentences."),
    "bench": Verb("bench", "Tables of measurements, peers included where they are installed.", controller="controller"),
    "ablate": Verb(
        "ablate",
        "Variants of a training, several seeds each, compared with the first.",
        deltas=("task", "preset"),
        controller="init_from",
    ),
    "list": Verb("listing", "Tasks, skills, zoo, describers, planners, drivers, scenes.", light=True),
    "doctor": Verb("doctor", "What works on this machine, a line each, with the remedy.", light=True),
}


def usage() -> str:
    """What `embodied --help` prints."""
    width = max(map(len, VERBS))
    rows = [f"  {name.ljust(width)}  {verb.summary}" for name, verb in VERBS.items()]
    return "\n".join(["embodied <verb> key=value ...", "", *rows, "", "embodied <verb> --help lists a verb's keys."])


def load(verb: Verb) -> ModuleType:
    """The verb's module; a missing third-party package becomes one line."""
    try:
        return import_module(f".verbs.{verb.module}", __package__)
    except ModuleNotFoundError as error:
        raise _missing(error) from None


def _missing(error: ModuleNotFoundError) -> UserError:
    return UserError(f"the package '{error.name}' is not installed: pip install 'embodied-control[all]'")


def configure(verb: Verb, module: ModuleType, arguments: Sequence[str]) -> Any:
    """The verb's frozen configuration."""
    if verb.light:
        return light_config(module.KEYS, arguments)
    from .compose import hydra_config

    return hydra_config(module.KEYS, arguments, verb.deltas)


def record(name: str, config: Any, folder: RunFolder, outcome: Outcome) -> str:
    """Writes result.json with the keys that every verb has, and returns its path."""
    common = {
        "schema": SCHEMA, "verb": name, "ok": outcome.ok, "seed": getattr(config, "seed", None),
        "task": getattr(config, "task", None) or None, "wall_s": time.time() - STARTED, "cpu_s": cpu_seconds(),
        "llm": NO_LLM,
    }  # fmt: skip
    result = {**common, **outcome.result, "ok": outcome.ok}
    return str(folder.write_json(RESULT_FILE, result))


def help_page(name: str, arguments: Sequence[str]) -> str:
    """A verb's keys; where others are given with it, the defaults are what would be used beside these.

    Raises:
        UserError: One of the others is a mistake.
    """
    verb = VERBS[name]
    module = load(verb)
    if not verb.deltas:
        return help_text(name, verb.summary, module.KEYS)
    from .compose import hydra_config

    config = hydra_config(module.KEYS, arguments, verb.deltas, complete=False)
    if config.task:
        check_task(config.task)
        told = f"The defaults are those of {' '.join(arguments)}."
    else:
        told = f"A task sets other defaults than these: embodied {name} task=<task> --help shows what would be used."
    return help_text(name, verb.summary, module.KEYS, with_hidden(config) if arguments else None, told)


def execute(name: str, arguments: Sequence[str]) -> int:
    """Runs one verb and returns the exit code."""
    if name not in VERBS:
        raise unknown_name("verb", name, VERBS)
    verb = VERBS[name]
    if any(word in HELP for word in arguments):
        print(help_page(name, [word for word in arguments if word not in HELP]))
        return 0
    check_controller(verb.controller, arguments)
    module = load(verb)
    try:
        arguments = getattr(module, "complete", tuple)(arguments)
        config = configure(verb, module, arguments)
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    given = getattr(config, "out", "") or getattr(config, "run_dir", "")
    folder = RunFolder(name, given, run_label(config), arguments, config)
    _refuse_folder(folder, config, getattr(module, "LEAVES", ()))
    try:
        outcome = module.run(config, folder)
    except JobFailed as failure:
        asked = {key: getattr(config, key) for key in ("scene", "instruction", "run", "bundle") if hasattr(config, key)}
        detail = {**asked, **failure.detail, "failure": {"reason": failure.reason, "message": str(failure)}}
        outcome = Outcome(False, detail, (f"{failure.reason}: {failure}",))
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    # First the settings: a result without them could not be told from another run's.
    if not (folder.path / CONFIG_FILE).exists() or name != "train":
        folder.write_config(config)
    path = record(name, config, folder, outcome)
    print("\n".join([*outcome.lines, path]), flush=True)
    return 0 if outcome.ok else 3


def _refuse_folder(folder: RunFolder, config: Any, leaves: Sequence[str]) -> None:
    """A folder that is another run's, or that cannot be made, is refused before the work and not after it."""
    resume = getattr(config, "resume", None)
    suite = {"suite": config.suite} if hasattr(config, "suite") else {}
    folder.refuse_others(None if resume is None else resume == "auto", suite, leaves)
    if resume is None or suite:
        folder.refuse_unmakeable()


def run_label(config: Any) -> str:
    """What a default run folder is called after: the suite or task, else the scene, else the run."""
    for name in ("suite", "task", "scene", "run", "describer", "planner"):
        value = getattr(config, name, "")
        if value:
            return os.path.basename(str(value).rstrip("/")).removesuffix(".xml")
    return ""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console program."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if words and words[0] in HELP:
        print(usage())
        return 0
    prefix = f"embodied {words[0]}" if words and words[0] in VERBS else "embodied"
    try:
        if not words:
            raise UserError(f"a verb is missing; verbs: {', '.join(VERBS)}")
        return execute(words[0], words[1:])
    except KeyboardInterrupt as stop:
        print(f"{prefix}: stopped{': ' + str(stop) if str(stop) else ''}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (EmbodiedError, OSError) as error:
        print(f"{prefix}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
