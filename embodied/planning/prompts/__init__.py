"""What language models are told: text files, by version, and the hash of what was made of them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from string import Template

VERSION = "v1"
"""Changes whenever a file changes what a model is told; older versions stay."""


@cache
def template(name: str, version: str = VERSION) -> Template:
    """The text of `<version>/<name>.txt`, with `$names` to be filled in."""
    return Template((files(__package__) / version / f"{name}.txt").read_text("utf-8"))


def fill(name: str, version: str = VERSION, **values: str) -> str:
    """The text with all its names filled in; what is filled in is not looked at for names again."""
    return template(name, version).substitute(values).strip() + "\n"
