"""The commands and programs in the documents run as written."""

from __future__ import annotations

import pathlib
import re
import shlex

import pytest
from conftest import ROOT, command

PAGES = sorted((ROOT / "docs" / "skills").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_run_from_the_root(page: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(), re.S)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("inferscope ")]
    assert lines, "a page without a command"
    for line in lines:
        words = shlex.split(line)[1:]
        done = command(*words)
        assert done.returncode in (0, 1), (line, done.stderr.decode())
        assert done.stdout.strip(), line


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "python.md"], ids=lambda page: page.stem)
def test_programs_run_from_the_root(page: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    assert blocks, "a page without a program"
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    assert capsys.readouterr().out.strip()
