"""Weights files: what is damaged or more than weights is refused, before torch is there to read it."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict
from pathlib import Path, PurePosixPath

import pytest
import torch
from safetensors.torch import save_file

from embodied.errors import IntegrityError
from vlm_describer.weights_file import check_weights

TENSORS = OrderedDict(weight=torch.ones(3, 4), bias=torch.zeros(4))


@pytest.mark.parametrize("zipped", [True, False])
def test_tensors_pass_however_they_are_kept(tmp_path: Path, zipped: bool) -> None:
    save_file(dict(TENSORS), tmp_path / "w.safetensors")
    torch.save({"state_dict": TENSORS, "epoch": 3}, tmp_path / "w.pt", _use_new_zipfile_serialization=zipped)
    check_weights(tmp_path / "w.safetensors")
    check_weights(tmp_path / "w.pt")


def test_objects_in_a_pickle_are_named_and_not_made(tmp_path: Path) -> None:
    torch.save({"state_dict": TENSORS, "made_in": PurePosixPath("/x")}, tmp_path / "w.pt")
    with pytest.raises(IntegrityError, match="Python objects of pathlib.* beside tensors.*safetensors"):
        check_weights(tmp_path / "w.pt")


@pytest.mark.parametrize("kept", [0, 4, 30, 100, -1])
def test_cut_files_are_noticed(tmp_path: Path, kept: int) -> None:
    save_file(dict(TENSORS), tmp_path / "w.safetensors")
    torch.save(TENSORS, tmp_path / "w.pt")
    for name in ("w.safetensors", "w.pt"):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[:kept] if name == "w.safetensors" else b"no" + whole[:kept])
        with pytest.raises(IntegrityError, match="get it again"):
            check_weights(tmp_path / name)


@pytest.mark.parametrize(
    "words",
    [
        "describer=clip model=ViT-B-33 pretrained=openai",
        "describer=clip model=ViT-B-32 pretrained=none",
        "describer=clip model=ViT-B-32 pretrained=cut.safetensors",
        "describer=blip model=folder",
    ],
)
def test_what_cannot_be_had_is_refused_without_the_libraries_that_would_read_it(tmp_path: Path, words: str) -> None:
    (tmp_path / "cut.safetensors").write_bytes(b"\x00" * 20)
    (tmp_path / "folder").mkdir()
    code = (
        "import sys; from embodied_launch.cli import main\n"
        f"ended = main(['describe', 'scene=tabletop_blocks', 'out=told', *{words.split()!r}])\n"
        "print(ended, [name for name in ('torch', 'transformers', 'open_clip') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ended.stdout == "2 []\n"
    assert len(ended.stderr.splitlines()) == 1
