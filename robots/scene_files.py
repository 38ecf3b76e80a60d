"""Which files a scene reads, found in its text before the simulator opens any of them.

A scene is somebody else's file. It may read what lies in its own folder, and what its user allows besides; a path that
leads elsewhere (absolute, through `..`, a link, an included or attached file) is refused. Where MuJoCo looks for a file
depends on settings that may come later in the text, so every place that it could mean has to be allowed.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from embodied.errors import SceneError

MAX_TEXT_BYTES = 64 * 2**20
"""Of a scene's text with all that it includes."""
MAX_TEXT_FILES = 500
MAX_ASSET_BYTES = 512 * 2**20
"""Of one mesh, texture or height field."""
MAX_NAME = 120
"""Signs of a file's name that a message shows."""

_MARKUP = re.compile(
    rb"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<\?.*?(?:\?>|\Z)|<![^>]*+>?"
    rb"|<([A-Za-z_:][^\s/>\"'=]*+)([^>\"']*+(?:(?:\"[^\"]*+\"|'[^']*+')[^>\"']*+)*+)>?",
    re.DOTALL,
)
"""What tinyxml2, MuJoCo's parser, takes for a comment or the like; else a tag and its attributes."""
_ATTRIBUTE = re.compile(rb"([A-Za-z_:\x80-\xff][\w.:\-\x80-\xff]*+)\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)')")
_SIDES = ("fileright", "fileleft", "fileup", "filedown", "filefront", "fileback")
_FILE_KEYS = ("file", "filename", *_SIDES)
_FOLDER_KEYS = ("assetdir", "meshdir", "texturedir")
_MODEL_ENDINGS = (".xml", ".mjcf", ".urdf")


@dataclass(frozen=True)
class SceneFile:
    """A scene on disk, and where else it may read."""

    path: Path
    also: tuple[Path, ...] = ()
    """Folders that its user allows besides the file's own."""

    def allows(self, path: Path) -> bool:
        """Whether a path, links followed, lies in one of the folders."""
        try:
            real = path.resolve()
            return any(real.is_relative_to(folder.resolve()) for folder in (self.path.parent, *self.also))
        except (OSError, ValueError, RuntimeError):
            return False

    def refuse_outside(self, path: Path, named: str) -> None:
        """
        Raises:
            SceneError: The path, `named` like this in the scene, lies outside.
        """
        if not self.allows(path):
            raise SceneError(
                f"scene '{self.path}' reads '{_shown(named)}', which lies outside its folder; "
                "allow a folder with files_from="
            )


@dataclass
class Sources:
    """All text that a scene is made of."""

    scene: SceneFile
    homes: list[Path] = field(default_factory=list)
    """Folders that names of files are relative to: the scene's, then those of the models that it attaches."""
    digest: str = ""
    """Of the text and of the sizes and times of the other files."""

    def asset(self, file: str, folder: str, strip: bool = False) -> Path | None:
        """Where an asset lies that the compiled scene names so; None where it is nowhere.

        Raises:
            SceneError: It lies outside of what the scene may read.
        """
        name = Path(file).name if strip else file
        for home in self.homes:
            path = home / folder / name
            if path.is_file():
                self.scene.refuse_outside(path, file)
                return path
        return None


def read_sources(scene: SceneFile) -> Sources:
    """Reads a scene's text, what it includes and attaches, and checks every file that any of it names.

    Raises:
        SceneError: A file that the scene may not read, or one that is too large or no file; one line.
    """
    return _Reader(scene).read()


class _Reader:
    """One walk through a scene's text."""

    def __init__(self, scene: SceneFile) -> None:
        self._scene, self._sources = scene, Sources(scene)
        self._hash, self._bytes = sha256(), 0
        self._seen: set[Path] = set()

    def read(self) -> Sources:
        waiting = [self._scene.path]
        while waiting:
            model = waiting.pop(0)
            if model.parent not in self._sources.homes:
                self._sources.homes.append(model.parent)
            waiting += self._read_model(model)
        self._sources.digest = self._hash.hexdigest()
        return self._sources

    def _read_model(self, model: Path) -> list[Path]:
        """A model's file and what it includes; the models that it attaches."""
        home, named, folders, strip = model.parent, [], {""}, False
        attached: list[Path] = []
        waiting = [model]
        while waiting:
            for tag, attributes in self._tags(waiting.pop()):
                files = [(key, value) for key, value in attributes.items() if key in _FILE_KEYS and value]
                if tag == "compiler":
                    folders |= {value for key, value in attributes.items() if key in _FOLDER_KEYS}
                    strip = strip or attributes.get("strippath") == "true"
                elif tag == "include":
                    waiting += [path for _, value in files if (path := self._text_file(home, value)) is not None]
                elif tag == "model":
                    attached += [path for _, value in files if (path := self._model_file(home, value)) is not None]
                else:
                    named += [value for _, value in files]
        for file in named:
            self._check_asset(file, home, folders, strip)
        return attached

    def _tags(self, path: Path) -> Iterator[tuple[str, dict[str, str]]]:
        """Tags and attributes of a file of text, once each file."""
        if path in self._seen:
            return
        self._seen.add(path)
        if len(self._seen) > MAX_TEXT_FILES:
            raise SceneError(f"scene '{self._scene.path}' is made of more than {MAX_TEXT_FILES} files; join some")
        try:
            self._bytes += path.stat().st_size
            self._refuse_long_text()
            content = path.read_bytes()
        except OSError as error:
            raise SceneError(f"cannot read '{path}' of the scene: {error.strerror or error}") from None
        self._hash.update(content)
        for found in _MARKUP.finditer(content):
            if found[1] is not None:
                attributes = {_text(a[1]): _text(a[2] or a[3] or b"") for a in _ATTRIBUTE.finditer(found[2])}
                yield _text(found[1]), attributes

    def _refuse_long_text(self) -> None:
        if self._bytes > MAX_TEXT_BYTES:
            limit = MAX_TEXT_BYTES >> 20
            raise SceneError(f"scene '{self._scene.path}' has more than {limit} MiB of text, which is no MJCF scene")

    def _text_file(self, home: Path, named: str) -> Path | None:
        """An included file; None where it is not there, which MuJoCo says better."""
        path = home / named
        self._scene.refuse_outside(path, named)
        return path if self._is_file(path, named) else None

    def _model_file(self, home: Path, named: str) -> Path | None:
        if not named.lower().endswith(_MODEL_ENDINGS):
            raise SceneError(f"scene '{self._scene.path}' attaches '{_shown(named)}', which is no MJCF or URDF file")
        return self._text_file(home, named)

    def _check_asset(self, file: str, home: Path, folders: set[str], strip: bool) -> None:
        """Every place that MuJoCo could mean by the name of a file."""
        places = [home / folder / (Path(file).name if strip else file) for folder in sorted(folders)]
        if not any(self._scene.allows(path) for path in places):
            self._scene.refuse_outside(places[0], file)
        for path in places:
            if self._is_file(path, file):
                self._scene.refuse_outside(path, file)
                told = path.stat()
                self._hash.update(f"{path} {told.st_size} {told.st_mtime_ns}".encode("utf-8", "surrogateescape"))
                if told.st_size > MAX_ASSET_BYTES:
                    raise SceneError(
                        f"'{_shown(file)}' of scene '{self._scene.path}' is larger than {MAX_ASSET_BYTES >> 20} MiB; "
                        "give a smaller one"
                    )

    def _is_file(self, path: Path, named: str) -> bool:
        """Whether it is there; a folder counts as not there, a device or pipe is refused."""
        try:
            if not path.exists() or path.is_dir():
                return False
            if path.is_file():
                return True
        except (OSError, ValueError):
            return False
        raise SceneError(f"'{_shown(named)}' of scene '{self._scene.path}' is not a regular file")


def _text(raw: bytes) -> str:
    return html.unescape(raw.decode("utf-8", "surrogateescape"))


def _shown(name: str) -> str:
    """A name in a message: printable, short, its end rather than its beginning."""
    line = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return line if len(line) <= MAX_NAME else "..." + line[3 - MAX_NAME :]
