"""`embodied train`: a controller from nothing."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from embodied.errors import UserError
from embodied.learning.her import ReplayConfig
from embodied.learning.sac import SacConfig
from embodied.run.config import PLAIN, TrainConfig
from embodied.run.metrics import LOGGERS
from embodied.run.relay import RelayConfig

from ..idle import idle_in_training, refuse
from ..keys import key, nested, split_arguments
from ..outcome import BEGUN_FILE, CONFIG_FILE, Outcome, RunFolder


@dataclass(frozen=True)
class KEYS:
    """Keys of `embodied train`."""

    task: str = key(
        "a task of `embodied list`, or gym:<id> for any Gymnasium environment with goals; with resume=auto it and the "
        "other settings may be left out: they are those of run_dir"
    )
    seed: int = key("root of every random number", 0, minimum=0)
    total_steps: int | None = key("environment steps; default: that of task and preset", None, minimum=1, unit="steps")
    preset: str = key(
        "fast: least computing time; frugal: fewer environment steps, more updates; debug: seconds, to try things out",
        "fast", choices=("fast", "frugal", "debug"),
    )  # fmt: skip
    run_dir: str = key("run folder; default runs/train/<time>-<task>", "", literal=True)
    resume: str = key("auto: go on from the newest good checkpoint of run_dir", "no", choices=("no", "auto"))
    init_from: str = key("run folder or zoo:<name> whose networks to begin with", "", literal=True)
    record: str = key("record of the finished episodes (HDF5), for others to read", "", literal=True)
    record_layout: str = key(
        "whose layout it has; auto: robomimic's for a name that ends in .hdf5, else a Minari folder",
        "auto", choices=("auto", "minari", "robomimic"),
    )  # fmt: skip
    demonstrations: str = key("recorded episodes that the replay begins with", "", literal=True)
    advisor: str = key("who advises while training", "none", choices=("none",))
    workers: int = key("environments stepped in turn", 1, minimum=1)
    logger: str = key("where metrics go beside metrics.jsonl", "jsonl", choices=LOGGERS)
    loop: TrainConfig = nested(TrainConfig, PLAIN)
    sac: SacConfig = nested(SacConfig)
    replay: ReplayConfig = nested(ReplayConfig)
    relay: RelayConfig = nested(RelayConfig)


def complete(arguments: Sequence[str]) -> tuple[str, ...]:
    """The words of a training; where one is to be gone on with and no task is named, those that it had come first.

    Raises:
        UserError: The folder does not say what its run was given.
    """
    return complete_from("train", KEYS, "run_dir", arguments)


def complete_from(verb: str, keys: type, folder_key: str, arguments: Sequence[str]) -> tuple[str, ...]:
    """The words, after those that the run in the folder had come first, where one is gone on with and names no task.

    Args:
        verb: Whose run it has to be.
        keys: Its keys.
        folder_key: The key that names the folder.
        arguments: The user's `key=value` words.

    Raises:
        UserError: The folder does not say what its run was given.
    """
    given = split_arguments(keys, arguments)
    if given.get("task") or given.get("resume") != "auto" or not given.get(folder_key):
        return tuple(arguments)
    file = Path(given[folder_key]).expanduser() / CONFIG_FILE
    try:
        saved = yaml.safe_load(file.read_text("utf-8"))
        if saved.get("verb", verb) != verb:
            raise UserError(
                f"'{file.parent}' holds a run of 'embodied {saved['verb']}': name the task= and another {folder_key}="
            )
        own = split_arguments(keys, saved["arguments"])
    except FileNotFoundError:
        raise UserError(f"task= is required: '{file.parent}' holds no {CONFIG_FILE} that names it") from None
    except (AttributeError, KeyError, TypeError, ValueError, yaml.YAMLError):
        raise UserError(f"{file} does not say what its run was given: name the task= and the other settings") from None
    print(f"{verb}: settings that are not given are those of {file}", file=sys.stderr)
    return tuple(f"{name}={value}" for name, value in {**own, **given}.items())


def loop_config(config: KEYS) -> TrainConfig:
    """The loop's configuration with the verb's own keys in it."""
    total = config.total_steps or config.loop.total_steps
    return replace(config.loop, total_steps=total, seed=config.seed, workers=config.workers)


def run(config: KEYS, folder: RunFolder) -> Outcome:
    """Trains, and leaves checkpoints, metrics and the controller in the run folder."""
    from .. import api

    _refuse_idle(config, folder)
    loop = loop_config(config)
    trained = api.train(
        config.task, folder.unmade, loop, config.sac, config.replay, config.relay, resume=config.resume == "auto",
        init_from=config.init_from or None, record=config.record or None, record_layout=config.record_layout,
        demonstrations=config.demonstrations or None, logger=config.logger,
        command=shlex.join(["embodied", "train", *folder.words]),
        on_ready=lambda: folder.write_config(replace(config, loop=loop)),
    )  # fmt: skip
    final = trained.final
    if trained.warning and not loop.never_learns:
        print(f"{config.task}: {trained.warning}", file=sys.stderr)
    reached = next((row for row in trained.to_dict()["steps_to"].items() if row[0] == "0.9"), ("0.9", None))[1]
    lines = (
        f"{config.task}: success {final.success_rate:.3f} over {final.episodes} episodes "
        f"(95 %: {final.ci95[0]:.3f} to {final.ci95[1]:.3f})",
        f"{trained.env_steps:,} environment steps, {trained.updates:,} updates, {trained.cpu_train_s:.0f} CPU-seconds; "
        f"0.9 {'not reached' if reached is None else f'after {reached:,} steps'}",
        f"controller: {folder.path / 'controller'}",
    )
    return Outcome(True, trained.to_dict(), lines)


def _refuse_idle(config: KEYS, folder: RunFolder) -> None:
    """Settings that the user wrote and that do nothing; a run that was begun with them goes on."""
    if not (folder.unmade / BEGUN_FILE).exists():
        refuse(idle_in_training(config, folder.asked))
