"""The program nft."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Sequence

TIMEOUT = 10.0  # seconds that nft may take; the daemon waits for it


def run_nft(nft: Sequence[str], *arguments: str, script: str = "") -> subprocess.CompletedProcess[str]:
    """Run nft, ``nft`` being the program with what stands before its arguments, with a script as its input.

    Raises OSError when it cannot be run or does not end.
    """
    try:
        return subprocess.run([*nft, *arguments], input=script, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise TimeoutError(errno.ETIMEDOUT, f"nft does not end within {TIMEOUT:g} s") from None
