"""`embodied describe`: a scene to text and facts."""

from __future__ import annotations

from dataclasses import dataclass

from ..catalogue import DESCRIBERS
from ..keys import key
from ..outcome import Outcome, RunFolder


@dataclass(frozen=True)
class KEYS:
    """Keys of `embodied describe`."""

    scene: str = key("a shipped scene, a task, or the path of an MJCF file", literal=True)
    describer: str = key("who describes", "oracle", choices=DESCRIBERS)
    camera: str = key("camera of the picture that is kept; default: the one that shows the scene best", "")
    out: str = key("run folder; default runs/describe/<time>-<scene>", "", literal=True)


def run(config: KEYS, folder: RunFolder) -> Outcome:
    """Describes the scene as it stands after it has settled, and keeps the camera's picture."""
    from embodied.report.pictures import save_png

    from .. import api, records

    with api.open_scene(config.scene) as scene:
        description = api.describe(scene, config.describer)
        frame = scene.render(config.camera or None, width=640, height=480)
    picture = save_png(folder.path / "frame.png", frame.rgb)
    result = {
        "task": None,
        "scene": config.scene,
        "description": records.description_record(description),
        "picture": picture,
    }
    return Outcome(True, result, (description.text,))
