"""What an execution leaves behind: the film, the states for recomputation, and the timeline with its pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from embodied.hierarchy.monitor import Event, StepRecord
from embodied.report.film import Film
from embodied.report.pictures import Tile, contact_sheet, save_png
from embodied.types import SceneDescription
from vlm_describer.text import main_facts

from .outcome import plain

if TYPE_CHECKING:
    from robots.base import CheckedSceneEnv

TILE_SIZE = (320, 240)
FILM_SIZE = (640, 480)


def facts_now(words: SceneDescription) -> str:
    """Those facts of a description that change when a robot acts."""
    telling = [str(fact.predicate) for fact in main_facts(words.facts)]
    return ", ".join(telling) or "nothing lies on, in or near anything, and nothing is touched"


@dataclass
class Recorder:
    """An observer of the executor that writes `states.npz`, and with a film also `execution.mp4` and the timeline.

    The timeline keeps for every control step what was pursued, in which attempt and how far away it was, and a picture
    with the describer's words at the start of each subgoal, at its end, and now and then between; and every event, with
    the calls to a language model that were made until then and their cost.
    """

    env: CheckedSceneEnv
    folder: Path
    describe: Callable[[], SceneDescription]
    subgoals: list[str]
    """What each subgoal is called on the sheet; replanning may add more, which then carry their number."""
    film: bool = True
    usage: Callable[[], Mapping[str, Any]] = dict
    """What a language model was asked so far, as a result file tells it."""
    camera: str | None = None
    every: int = 4
    """Control steps between two pictures of one subgoal."""
    _states: list[tuple[float, np.ndarray, np.ndarray]] = field(default_factory=list)
    _rows: list[dict[str, Any]] = field(default_factory=list)
    _events: list[dict[str, Any]] = field(default_factory=list)
    _tiles: list[Tile] = field(default_factory=list)
    _last_picture: int = -1_000

    def __post_init__(self) -> None:
        self._states.append(self.env.record())
        self._film = Film(self.folder / "execution.mp4", self.env.spec.control_hz) if self.film else None
        if self._film is not None:
            (self.folder / "timeline").mkdir(parents=True, exist_ok=True)
            self._picture("before", "nothing asked yet", 0, True)

    def __call__(self, record: StepRecord) -> None:
        """Takes in one control step."""
        self._states.append(self.env.record())
        distance = None if np.isnan(record.distance_m) else round(record.distance_m, 4)
        row = {
            "step": record.step, "time_s": round(record.time_s, 4), "subgoal": record.subgoal, "phase": record.phase,
            "distance_m": distance, "reached": record.reached, "attempt": record.attempt,
        }  # fmt: skip
        self._rows.append(row)
        if self._film is None:
            return
        self._film.add(self.env.render(self.camera, *FILM_SIZE).rgb)
        fresh = len(self._rows) == 1 or self._rows[-2]["subgoal"] != record.subgoal
        if record.reached or fresh or record.step - self._last_picture >= self.every:
            name = self.name(record.subgoal)
            said = f"{record.phase}, {distance:.3f} m to go" if distance is not None else record.phase
            self._picture(name, "REACHED" if record.reached else said, record.step, True)

    def happened(self, event: Event) -> None:
        """Takes in what happened between two control steps; a subgoal's end has its picture."""
        used = self.usage()
        told = {"calls": used.get("calls", 0), "cost": used.get("cost", 0.0)}
        self._events.append({**asdict(event), **told})
        if self._film is not None and event.kind in ("reached", "missed") and self._last_picture != event.step:
            self._picture(event.call, event.kind.upper(), event.step, event.kind == "reached")

    def name(self, subgoal: int) -> str:
        """What a subgoal is called."""
        return self.subgoals[subgoal] if subgoal < len(self.subgoals) else f"subgoal {subgoal + 1}"

    def _picture(self, title: str, said: str, step: int, good: bool) -> None:
        self._last_picture = step
        words = self.describe()
        rgb = self.env.render(self.camera, *FILM_SIZE).rgb
        path = save_png(self.folder / "timeline" / f"step_{step:05d}.png", rgb)
        entry = {"picture": str(path.relative_to(self.folder)), "description": words.text}
        if self._rows:
            self._rows[-1] |= entry
        else:
            self._rows.append({"step": 0, "time_s": 0.0, "subgoal": 0, "phase": "before", **entry})
        small = rgb[:: FILM_SIZE[1] // TILE_SIZE[1], :: FILM_SIZE[0] // TILE_SIZE[0]]
        self._tiles.append(Tile(small, f"{title}: {said}", f"step {step}: {facts_now(words)}", good))

    def finish(self) -> dict[str, Path]:
        """Writes what is left and says where everything is."""
        time_s, qpos, qvel = (np.array(column) for column in zip(*self._states, strict=True))
        states = self.folder / "states.npz"
        np.savez(states, time_s=time_s, qpos=qpos, qvel=qvel)
        timeline = self.folder / "timeline.json"
        told = {"subgoals": self.subgoals, "llm": self.usage(), "events": self._events, "steps": self._rows}
        timeline.write_text(json.dumps(plain(told), indent=1), "utf-8")
        found = {"states": states, "timeline": timeline, "compiled_scene": Path(self.env.compiled_scene)}
        if self._film is not None:
            self._film.close()
            found["video"] = self._film.path
        return found

    def sheet(self, path: Path, heading: str, most: int = 9) -> Path:
        """The contact sheet: at most so many pictures, first and last and those of reached subgoals among them."""
        tiles = self._tiles
        kept = {0, len(tiles) - 1} | {i for i, tile in enumerate(tiles) if tile.title.endswith("REACHED")}
        spread = np.linspace(0, len(tiles) - 1, most).round().astype(int)
        for i in spread:
            if len(kept) >= most:
                break
            kept.add(int(i))
        return contact_sheet(path, [tiles[i] for i in sorted(kept)][:most], heading)
