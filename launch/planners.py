"""Planners that ask a language model: their settings, and how they are put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from embodied.errors import UserError
from embodied.planning.answers import Verify
from embodied.planning.asking import Asker, LanguageModel, RetryConfig
from embodied.planning.budget import Account, BudgetConfig
from embodied.planning.cache import AnswerCache, default_path
from embodied.planning.http_post import HttpLimits
from embodied.planning.model_planner import ModelPlanner, ModelPlannerConfig
from embodied.planning.recorded import AnswerRecorder, RecordedModel
from embodied.planning.saycan import SayCanConfig, SayCanPlanner
from embodied.protocols import Planner, RemindedPlanner

NO_CACHE = "none"


@dataclass(frozen=True)
class PlannerSettings:
    """How a language model is asked; what does not belong to the chosen planner has to be left as it is."""

    base_url: str = ""
    """openai: the server's address, up to and with `/v1`; empty: the environment's OPENAI_BASE_URL."""
    model: str = ""
    """openai: the model's name there; transformers, saycan: its folder or hub name."""
    key_file: str = ""
    """openai: a file with the server's key; empty: the environment's OPENAI_API_KEY."""
    votes: int = 1
    temperature: float | None = None
    max_tokens: int = ModelPlannerConfig.max_tokens
    timeout_s: float = HttpLimits.total_s
    """openai: for one answer."""
    retries: int = RetryConfig.retries
    notes: str = ""
    cache: str = ""
    """File for answers; empty: in the user's cache folder; `none`: answers are not kept."""
    answers: str = ""
    """replay: the recorded answers."""
    record: str = ""
    """A file to append all answers to."""
    budget: BudgetConfig = field(default_factory=BudgetConfig)

    def refuse_unused(self, planner: str) -> None:
        """
        Raises:
            UserError: A setting was given that this planner makes no use of.
        """
        for item in fields(self):
            users = _USERS.get(item.name, _ASKING)
            if planner not in users and item.name != "budget" and getattr(self, item.name) != item.default:
                raise UserError(f"{item.name}= belongs to planner={' or planner='.join(users)}")


_ASKING = ("openai", "transformers", "saycan", "replay")
_ANSWERING = ("openai", "transformers", "replay")
_USERS = {
    "base_url": ("openai",), "key_file": ("openai",), "timeout_s": ("openai",), "retries": ("openai",),
    "model": ("openai", "transformers", "saycan"), "votes": _ANSWERING, "temperature": _ANSWERING,
    "max_tokens": _ANSWERING, "record": ("openai", "transformers"), "cache": ("openai", "transformers"),
    "answers": ("replay",),
}  # fmt: skip
"""Which planners a setting is for; the others are for all that ask a model."""


@runtime_checkable
class AskingPlanner(RemindedPlanner, Protocol):
    """A planner that asks a language model and accounts for it."""

    def adapt(self, skills: tuple[str, ...], verify: Verify) -> None: ...
    def usage(self) -> dict[str, Any]: ...
    def usage_line(self) -> str: ...
    def close(self) -> None: ...


def make_asking_planner(name: str, settings: PlannerSettings, say: Callable[[str], None]) -> Planner:
    """`openai`, `transformers`, `saycan` or `replay`.

    Raises:
        UserError: Its model cannot be had, or the settings do not fit it.
    """
    settings.refuse_unused(name)
    account = Account(settings.budget)
    if name == "saycan":
        from embodied.planning.local_model import load_local_model

        return SayCanPlanner(load_local_model(settings.model), account, config=SayCanConfig(notes=settings.notes))
    config = ModelPlannerConfig(settings.votes, settings.temperature, settings.max_tokens, settings.notes)
    asker = Asker(
        model=_model(name, settings),
        account=account,
        cache=None if name == "replay" or settings.cache == NO_CACHE else AnswerCache(_cache_path(settings), say),
        retry=RetryConfig(retries=settings.retries),
        recorder=AnswerRecorder(settings.record) if settings.record else None,
    )
    return ModelPlanner(name, asker, config, dialect="exact" if name == "transformers" else "common")


def _model(name: str, settings: PlannerSettings) -> LanguageModel:
    if name == "replay":
        return RecordedModel(settings.answers)
    if name == "transformers":
        from embodied.planning.local_model import check_llguidance, load_local_model

        check_llguidance()
        return load_local_model(settings.model)
    from embodied.planning.server import ServedModel, ServerConfig

    limits = HttpLimits(read_s=settings.timeout_s, total_s=settings.timeout_s)
    return ServedModel(ServerConfig(settings.base_url, settings.model, key_file=settings.key_file, limits=limits))


def _cache_path(settings: PlannerSettings) -> Path:
    return Path(settings.cache).expanduser() if settings.cache else default_path()
