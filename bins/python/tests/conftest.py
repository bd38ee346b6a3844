"""Recordings of the repository, and the command line to compare with."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
DATA = ROOT / "testdata"


@pytest.fixture(scope="session")
def data() -> pathlib.Path:
    return DATA


def command(*words: object) -> subprocess.CompletedProcess[bytes]:
    """Run the command of the wheel in a process of its own."""
    line = [sys.executable, "-m", "inferscope", *map(str, words)]
    return subprocess.run(line, capture_output=True, check=False, timeout=300)


def document(*words: object) -> Any:
    """Return the JSON document of a command line."""
    done = command(*words)
    assert done.stdout, done.stderr.decode()
    return json.loads(done.stdout)


def published() -> list[pathlib.Path]:
    """Return recordings of real runs, where these are at hand."""
    given = os.environ.get("INFERSCOPE_DATA")
    folder = pathlib.Path(given) if given else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        return []
    found = [path for path in sorted(folder.glob("**/*.json.gz")) if 50_000 < path.stat().st_size < 1_500_000]
    return found[:2]
