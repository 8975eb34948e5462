"""Commands in tests: run in this process or another one, on a pipe or a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from denslice.__main__ import app

DENSLICE = [sys.executable, "-c", "from denslice.__main__ import main; main()"]


def denslice(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def process(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*DENSLICE, *map(str, arguments)], **{**pipes, **options})


def write_docs(path: Path, docs: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    return path


def assert_one_line(result: Result, *parts: str) -> None:
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr


def on_terminal(*arguments: object, columns: int = 100) -> str:
    """What a terminal of so many columns is sent."""
    screen, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns)}
    for name in ("NO_COLOR", "FORCE_COLOR"):
        environment.pop(name, None)
    running = process(*arguments, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while chunk := _read(screen):
        shown += chunk
    os.close(screen)
    assert running.wait(timeout=200) == 0, shown
    return shown.decode()


def _read(screen: int) -> bytes:
    try:
        return os.read(screen, 65_536)
    except OSError:  # Linux says EIO when the other side is closed
        return b""
