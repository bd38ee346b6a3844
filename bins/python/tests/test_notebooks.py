"""The notebooks run, and what they show is what is printed in them. With BLESS=1 they are written anew."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest
from conftest import ROOT

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")

FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def texts(notebook: Any) -> list[str]:
    """Return what the cells print and show as text."""
    found = []
    for cell in notebook.cells:
        # What is printed may come in any number of pieces.
        shown = (output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", []))
        found.append("".join(shown))
    return found


def test_there_are_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["job", "regression", "trace"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_did(path: pathlib.Path) -> None:
    stated = nbformat.read(path, as_version=4)
    ran = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(ran, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}}).execute()
    if os.environ.get("BLESS"):
        ran.metadata = stated.metadata
        for cell in ran.cells:
            cell.metadata = {}
        path.write_text(nbformat.writes(ran, indent=1).rstrip("\n") + "\n")
    assert texts(ran) == texts(nbformat.read(path, as_version=4))
