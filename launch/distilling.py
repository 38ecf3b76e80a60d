"""What a larger model teaches the embedded planner: plans for instructions of one's own, and other wordings."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embodied.errors import UserError

from .planners import PlannerSettings

if TYPE_CHECKING:
    from embodied.planning.asking import Asker
    from embodied.planning.embedded import EmbeddedPlanner
    from embodied.planning.model_planner import ModelPlanner
    from embodied.planning.teaching.distil import Lesson
    from embodied.types import PlanStep, SceneDescription

TEACHERS = ("openai", "transformers")
LANGUAGES = {"en": "English", "zh": "Chinese"}


@dataclass(frozen=True)
class LessonSettings:
    """What the teacher is asked, and what that may cost."""

    instructions: str = ""
    """A file of JSON lines with `scene` and `instruction`, which the teacher plans; other keys are not looked at."""
    rephrased: int = 200
    """Taught sentences that the teacher says in other words."""
    wordings: int = 4
    """Of each of them."""
    base_url: str = ""
    """openai: the server's address, up to and with `/v1`; empty: the environment's OPENAI_BASE_URL."""
    model: str = ""
    """Its name there; transformers: its folder or hub name."""
    key_file: str = ""
    """openai: a file with the server's key; empty: the environment's OPENAI_API_KEY."""
    cache: str = ""
    """File for answers; empty: in the user's cache folder; `none`: answers are not kept."""
    calls: int = 1_000
    tokens: int = 3_000_000
    seconds: float = 3_600.0
    cost: float | None = None
    """Most money, in the currency of the prices."""
    price_in: float = 0.0
    price_out: float = 0.0

    def __post_init__(self) -> None:
        if self.rephrased < 0 or not 1 <= self.wordings <= 20:
            raise UserError("lessons.rephrased is at least 0, and lessons.wordings from 1 to 20")

    def asking(self) -> PlannerSettings:
        """As planners are asked."""
        from embodied.planning.budget import BudgetConfig

        budget = BudgetConfig(self.calls, self.tokens, self.seconds, self.cost, self.price_in, self.price_out)
        return PlannerSettings(
            base_url=self.base_url, model=self.model, key_file=self.key_file, cache=self.cache, budget=budget
        )


@dataclass
class Lessons:
    """A teacher that is asked once for each sentence; what it taught lies in a file."""

    teacher: str
    settings: LessonSettings
    seed: int

    def check(self) -> None:
        """What can be known before the fit.

        Raises:
            UserError: The teacher or the file of instructions cannot be used.
        """
        self._teacher().close()
        if self.settings.instructions:
            asked_lines(Path(self.settings.instructions))

    def written(
        self, planner: EmbeddedPlanner, folder: Path, progress: Callable[[str, float], None]
    ) -> tuple[list[Path], dict[str, Any]]:
        """The file of explained lessons, and numbers for the card; what lies there already is used.

        Raises:
            UserError: The teacher cannot be asked, or not one lesson was understood.
        """
        import numpy as np

        from embodied.planning.teaching.distil import explained
        from embodied.planning.teaching.fit import record

        path, told = folder / "lessons.jsonl", folder / "lessons.json"
        if path.exists() and told.exists():
            return [path], json.loads(told.read_text("utf-8"))
        asked = asked_lines(Path(self.settings.instructions)) if self.settings.instructions else []
        model = self._teacher()
        rng, lines, given = np.random.default_rng(self.seed), [], 0
        try:
            for lesson in self._lessons(planner, model, asked):
                given += 1
                progress(f"lessons: {len(lines)} of {given} understood", 0.0)
                if (sentence := explained(planner, lesson, rng)) is not None:
                    lines.append(record(sentence))
        finally:
            model.close()
        if not lines:
            raise UserError(f"the teacher gave {given} lessons, none of them understood: {model.usage_line()}")
        numbers = {"teacher": self.teacher, "lessons": given, "understood": len(lines), "usage": model.usage()}
        path.write_text("".join(lines), "utf-8")
        told.write_text(json.dumps(numbers, indent=1) + "\n", "utf-8")
        return [path], numbers

    def _teacher(self) -> ModelPlanner:
        from embodied.planning.model_planner import ModelPlanner

        from .planners import make_asking_planner

        made = make_asking_planner(self.teacher, self.settings.asking(), lambda line: print(line, file=sys.stderr))
        assert isinstance(made, ModelPlanner)
        return made

    def _lessons(
        self, planner: EmbeddedPlanner, model: ModelPlanner, asked: Sequence[tuple[str, SceneDescription]]
    ) -> Iterator[Lesson]:
        from embodied.planning.teaching.distil import planned_lessons, rephrased_lessons

        rephraser = Rephraser(model.asker, self.settings.wordings)
        yield from planned_lessons(model, asked)
        yield from rephrased_lessons(planner, rephraser, self.settings.rephrased, self.seed)


@dataclass
class Rephraser:
    """Asks a model for other wordings; an answer that holds none, or does not come, is passed over."""

    asker: Asker
    count: int

    def __call__(self, text: str, scene: SceneDescription, steps: tuple[PlanStep, ...]) -> list[str] | None:
        """
        Raises:
            UserError: The model cannot be asked at all.
        """
        from embodied.planning.answers import AnswerError, object_in
        from embodied.planning.asking import ModelError, Question
        from embodied.planning.parser.tokens import HAN
        from embodied.planning.prompting import Task, rephrase_messages
        from embodied.planning.words import MAX_CHARACTERS

        language = LANGUAGES["zh" if HAN.search(text) else "en"]
        question = Question(rephrase_messages(Task(text, scene), steps, self.count, language), temperature=0.7)
        try:
            answer = self.asker.ask(question)
            told = object_in(answer, "wordings")["wordings"]
        except AnswerError:
            return []
        except ModelError as error:
            if error.kind == "budget":
                return None
            if error.final:
                raise UserError(f"the teacher did not answer: {error}; resume=auto goes on from here") from None
            return []
        self.asker.accept(question, answer)
        texts = [each.strip() for each in told if isinstance(each, str)] if isinstance(told, list) else []
        return [each for each in texts[: self.count] if 0 < len(each) <= MAX_CHARACTERS]


def asked_lines(path: Path) -> list[tuple[str, SceneDescription]]:
    """Instructions of a file, each with its scene as it is.

    Raises:
        UserError: The file, a line or a scene cannot be used; says which.
    """
    from . import build
    from .bench.instructions import scene_path

    described: dict[str, SceneDescription] = {}
    found = []
    try:
        lines = path.expanduser().read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"lessons.instructions={path}: cannot be read ({error})") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
            scene, words = data["scene"], data["instruction"]
            if not (isinstance(scene, str) and isinstance(words, str)):
                raise TypeError
        except (ValueError, KeyError, TypeError):
            raise UserError(
                f"{path}, line {number}: it has to be a JSON object with the texts 'scene' and 'instruction'"
            ) from None
        if scene not in described:
            world = build.open_world(scene_path(scene, path), "auto", None, None)
            try:
                described[scene] = build.make_describer("oracle", world).describe(())
            finally:
                world.close()
        found.append((words, described[scene]))
    return found
