"""Who may import whom: the table of docs/architecture.md, held against every import statement."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FIRST_NAMES = "types errors protocols spec rng facts colours labels binding bundle_format wire seal"
FIRST = {f"embodied.{name}" for name in FIRST_NAMES.split()}
SECOND = {"embodied.text_encoder", "embodied.hub"}
HEAVY = {
    "torch", "mujoco", "gymnasium", "gymnasium_robotics", "hydra", "omegaconf", "onnx", "onnxruntime", "open_clip",
    "transformers", "h5py", "matplotlib", "PIL", "imageio", "jsonschema", "safetensors", "httpx", "openai", "tqdm",
    "tensorboard", "onnxscript", "yaml", "stable_baselines3", "sb3_contrib", "rliable", "scipy", "huggingface_hub",
    "llguidance",
}  # fmt: skip

# package: (ours that it may import beside itself, heavy third parties)
TABLE: dict[str, tuple[set[str], set[str]]] = {
    "first": (set(), set()),
    "embodied.text_encoder": (FIRST, {"torch", "transformers", "safetensors"}),
    "embodied.hub": (FIRST, {"huggingface_hub"}),
    "robots": (FIRST, {"mujoco", "gymnasium", "gymnasium_robotics", "PIL"}),
    "vlm_describer": (
        FIRST | SECOND,
        {"torch", "open_clip", "transformers", "safetensors", "huggingface_hub", "scipy", "h5py", "PIL", "matplotlib"},
    ),
    "embodied.learning": (FIRST, {"torch", "h5py", "safetensors"}),
    "embodied.planning": (FIRST | SECOND, {"torch", "safetensors", "transformers", "llguidance", "jsonschema"}),
    "embodied.hierarchy": (FIRST, set()),
    "embodied.run": (FIRST, {"tqdm", "tensorboard", "torch.utils.tensorboard"}),
    "embodied.export": (FIRST | {"embodied.learning"}, {"torch", "onnx", "onnxruntime"}),
    "embodied.deploy": (FIRST, {"onnxruntime"}),
    "embodied.report": (FIRST, {"matplotlib", "PIL", "imageio"}),
}


def sources() -> list[Path]:
    return sorted(p for folder in ("embodied", "robots", "vlm_describer") for p in (ROOT / folder).rglob("*.py"))


def owner(path: Path) -> str:
    module = module_of(path)
    if module in FIRST or module == "embodied":
        return "first"
    named = [package for package in TABLE if module == package or module.startswith(package + ".")]
    assert named, f"{module} belongs to no package of the table"
    return named[0]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                parts = module_of(path).split(".")
                package = parts if path.name == "__init__.py" else parts[:-1]
                base = ".".join(package[: len(package) - node.level + 1])
                yield f"{base}.{node.module}" if node.module else base, node.lineno
            elif node.module == "embodied":
                yield from ((f"embodied.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield node.module or "", node.lineno


def within(module: str, allowed: set[str]) -> bool:
    return any(module == name or module.startswith(name + ".") for name in allowed)


@pytest.mark.parametrize("path", sources(), ids=module_of)
def test_imports_keep_to_the_table(path: Path) -> None:
    package = owner(path)
    ours, heavy = TABLE[package]
    own = FIRST if package == "first" else {package}
    for module, line in imports(path):
        root = module.split(".")[0]
        assert root not in ("launch", "embodied_launch", "tests"), f"{path}:{line} imports {module}"
        if root in ("embodied", "robots", "vlm_describer"):
            assert within(module, ours | own), f"{path}:{line}: {package} may not import {module}"
        elif root in HEAVY:
            assert within(module, heavy), f"{path}:{line}: {package} may not import {module}"


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("embodied.deploy.runtime", ("torch", "mujoco", "hydra", "gymnasium")),
        ("embodied.facts", ("torch", "mujoco", "hydra", "gymnasium")),
        ("embodied.text_encoder", ("torch", "transformers", "mujoco", "hydra")),
        ("vlm_describer.words", ("torch", "transformers", "matplotlib", "mujoco", "hydra")),
        ("embodied_launch.cli", ("torch", "mujoco", "hydra", "gymnasium")),
        ("embodied_launch.verbs.deploy", ("torch", "mujoco", "hydra", "gymnasium")),
    ],
)
def test_what_an_import_brings_in(module: str, forbidden: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print([m for m in {forbidden!r} if m in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert ended.stdout.strip() == "[]"
