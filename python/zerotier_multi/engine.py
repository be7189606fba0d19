"""What the product asks of an engine program itself: to make an identity."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from zerotier_multi.files import aside, sync
from zerotier_multi.identity import PublicIdentity


class IdentityError(RuntimeError):
    """No identity could be made or read; the text is one sentence without key material."""


def generate_identity(program: str, home: Path) -> PublicIdentity:
    """Make ``identity.secret`` (0600) and ``identity.public`` in ``home`` with the engine's own generator.

    An existing identity is never touched. Raises :class:`IdentityError`.
    """
    secret, public = home / "identity.secret", home / "identity.public"
    if secret.exists():
        raise IdentityError(f"{secret} exists already; it is not overwritten")
    made = (aside(secret), aside(public))
    try:
        subprocess.run(
            [program, "-i", "generate", *map(str, made)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=True,
            umask=0o077,
        )
        identity = PublicIdentity.parse(made[1].read_text())
        made[0].chmod(0o600)
        for path in made:
            sync(path)  # a power cut must not leave a name without its key
        os.replace(made[1], public)
        os.replace(made[0], secret)  # last: a home with the secret is complete
        sync(home)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise IdentityError(f"{program} could not make an identity in {home}: {_reason(error)}") from None
    finally:
        for path in made:
            path.unlink(missing_ok=True)
    return identity


def _reason(error: Exception) -> str:
    """Why, in the program's own last words where it has said some; it never prints keys."""
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else None
    lines = said.decode(errors="replace").strip().splitlines() if said else []
    return lines[-1] if lines else str(getattr(error, "strerror", None) or type(error).__name__)


def generate_identities(program: str, homes: Iterable[Path]) -> None:
    """Make the identities of several homes at once, as many at a time as there are CPUs."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        list(pool.map(lambda home: generate_identity(program, home), homes))
