"""The contact sheet of labelled frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from embodied.labels import EntityLabel, FrameLabel
from embodied.report.labelled import ROLE_INK, boxed, labelled_sheet
from embodied.types import BaseFrame, Frame


def test_boxes_stand_where_the_label_says(tmp_path: Path) -> None:
    frame = Frame(np.zeros((60, 80, 3), np.uint8), "view")
    thing = EntityLabel(
        "thing1", "object", "block", "red", (0, 0, 0), (1, 1, 1), (0, 0, 0), (1, 0, 0, 0), (20, 10, 30, 25), 150, 1.0,
        False,
    )  # fmt: skip
    label = FrameLabel("table", (thing,), (), BaseFrame(), 0.4, "none", 0, "fit", 1, 0)
    picture = boxed(frame, label)
    rows, columns = np.nonzero((picture == ROLE_INK["object"]).all(axis=-1))
    assert (columns.min(), columns.max() + 1, rows.min(), rows.max() + 1) == (19, 31, 9, 26)
    assert not frame.rgb.any()
    path = labelled_sheet(tmp_path / "sheet.png", [(frame, label)] * 3, "heading", columns=2)
    with Image.open(path) as sheet:
        assert sheet.width > 2 * 80
        assert sheet.height > 2 * 60
