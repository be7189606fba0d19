"""What the daemon writes down for the one that comes after it: JSON in a file that only root reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from zerotier_multi.files import write_atomic


def load(path: Path) -> dict[str, Any]:
    """What was written down; nothing where there is no file, or one that makes no sense."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def store(path: Path, values: dict[str, Any]) -> list[str]:
    """Write it down; a sentence when that cannot be done, which holds nothing up."""
    try:
        write_atomic(path, json.dumps(values).encode(), 0o600)
    except OSError as error:
        return [f"{path} cannot be written ({error.strerror})"]
    return []
