"""`embodied describe`: a scene, or a camera's picture, to text and facts."""

from __future__ import annotations

from dataclasses import dataclass

from embodied.errors import UserError
from embodied.types import Frame, SceneDescription

from ..catalogue import DESCRIBERS
from ..keys import key
from ..outcome import Outcome, RunFolder


@dataclass(frozen=True)
class KEYS:
    """Keys of `embodied describe`."""

    scene: str = key("a shipped scene, a task, or the path of an MJCF file; or give image=", "", literal=True)
    files_from: str = key("a folder that the scene's file may read from besides its own", "", literal=True)
    describer: str = key("who describes", "oracle", choices=DESCRIBERS)
    camera: str = key("camera of the picture; default: the one that shows the scene best", "")
    image: str = key("picture of a camera (PNG or JPEG) instead of a scene", "", literal=True)
    depth: str = key("its depth: 16-bit PNG in millimetres, or .npy in metres", "", literal=True)
    intrinsics: str = key("its fx,fy,cx,cy", "", unit="pixels", literal=True)
    camera_pose: str = key(
        "where its camera is in the robot's frame, x right, y down, z forward: x,y,z,qw,qx,qy,qz or a file with 4x4 "
        "numbers (.npy or text); default: unknown",
        "", unit="m", literal=True,
    )  # fmt: skip
    model: str = key(
        "clip, blip: folder of a fitted model, or a public one's name; default: the shipped one", "", literal=True
    )
    pretrained: str = key("clip: weights of a public model: tag, file or local-dir:<folder>", "", literal=True)
    vocabulary: str = key("clip: a file with kinds, predicates and wordings of one's own (TOML)", "", literal=True)
    out: str = key("run folder; default runs/describe/<time>-<scene>", "", literal=True)


PICTURE = "frame.png"
LEAVES = (PICTURE,)


def run(config: KEYS, folder: RunFolder) -> Outcome:
    """Describes the scene as it stands after it has settled, or the picture, and keeps what was looked at.

    Its lines are the caption and, each thing and fact with its source, the text.
    """
    from embodied.report.pictures import save_png

    from .. import records

    if config.describer == "oracle" and config.model:
        raise UserError("describer=oracle has no model; model= belongs to describer=clip or describer=blip")
    for name in ("pretrained", "vocabulary"):
        if config.describer != "clip" and getattr(config, name):
            raise UserError(f"{name}= belongs to describer=clip")
    if config.pretrained and not config.model:
        raise UserError("pretrained= belongs to model=, a public model")
    description, frame = _from_image(config) if config.image else _from_scene(config)
    picture = save_png(folder.path / PICTURE, frame.rgb)
    result = {
        "task": None,
        "scene": config.scene or None,
        "image": config.image or None,
        "description": records.description_record(description),
        "picture": picture,
    }
    return Outcome(True, result, (description.caption, description.text))


def _from_scene(config: KEYS) -> tuple[SceneDescription, Frame]:
    from .. import api, build

    for name in ("depth", "intrinsics", "camera_pose"):
        if getattr(config, name):
            raise UserError(f"{name}= belongs to image=; a scene brings its own")
    if not config.scene:
        raise UserError("give scene=<a scene> or image=<a picture>")

    sight = build.Sight(config.camera, model=config.model, pretrained=config.pretrained, vocabulary=config.vocabulary)
    with api.open_scene(config.scene, config.files_from) as scene:
        description = api.describe(scene, config.describer, sight)
        return description, scene.render(config.camera or None, width=640, height=480)


def _from_image(config: KEYS) -> tuple[SceneDescription, Frame]:
    from vlm_describer.frames import read_frame

    from .. import api, build

    if config.scene:
        raise UserError("give scene= or image=, not both")
    if config.files_from:
        raise UserError("files_from= belongs to scene=; a picture reads nothing else")
    if config.camera:
        raise UserError("camera= belongs to scene=; a picture has been taken already")
    if config.describer == "oracle":
        raise UserError("describer=oracle reads a simulator; a picture needs describer=clip or describer=blip")
    frame = read_frame(config.image, config.depth or None, config.intrinsics or None, config.camera_pose or None)
    sight = build.Sight(model=config.model, pretrained=config.pretrained, vocabulary=config.vocabulary)
    return api.describe_frame(frame, config.describer, sight), frame
