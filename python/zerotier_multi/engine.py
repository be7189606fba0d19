"""What the product asks of an engine program itself: to make an identity."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from zerotier_multi.files import aside, sync
from zerotier_multi.identity import PublicIdentity

# Seconds that an identity may take. It is found by trying: some seconds of a CPU on a small router, by chance some times
# that, and a router that boots runs other things beside it. As long as zerotier-pathd has to start.
LIMIT = 300.0


class IdentityError(RuntimeError):
    """No identity could be made or read; the text is one sentence without key material."""


def generate_identity(program: str, home: Path) -> PublicIdentity:
    """Make ``identity.secret`` (0600) and ``identity.public`` in ``home`` with the engine's own generator.

    An existing identity is never touched. Raises :class:`IdentityError`.
    """
    secret, public = home / "identity.secret", home / "identity.public"
    if secret.exists():
        raise IdentityError(f"{secret} already exists and is not overwritten")
    made = (aside(secret), aside(public))
    try:
        subprocess.run(
            [program, "-i", "generate", *map(str, made)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT,
            check=True,
            umask=0o077,
        )
        identity = PublicIdentity.parse(made[1].read_text())
        if not made[0].read_text().startswith(f"{identity}:"):
            raise ValueError("a secret of another identity")
        made[0].chmod(0o600)
        for path in made:
            sync(path)  # a power cut must not leave a name without its key
        os.replace(made[1], public)
        os.replace(made[0], secret)  # last: a home with the secret is complete
        sync(home)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise IdentityError(f"{program} could not create an identity in {home}: {_reason(error, home)}") from None
    finally:
        for path in made:
            path.unlink(missing_ok=True)
    return identity


def _reason(error: Exception, home: Path) -> str:
    """Why, in the program's own last words where it has said some; it never prints keys.

    zerotier-one says nothing and ends with 0 when it cannot write; then the disk is asked.
    """
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else None
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it was not done after {error.timeout:g} s; commit again when the CPU is less busy"
    lines = said.decode(errors="replace").strip().splitlines() if said else []
    if lines:
        return lines[-1]
    refused = error if isinstance(error, OSError) and error.errno != errno.ENOENT else _disk_fault(home)
    return str(getattr(refused, "strerror", None) or f"it left an incomplete identity ({type(error).__name__})")


def _disk_fault(home: Path) -> OSError | None:
    """What the disk says to as much as an identity needs; None where it takes it."""
    probe = aside(home / "identity.probe")
    try:
        probe.write_bytes(bytes(4096))
        sync(probe)
    except OSError as error:
        return error
    finally:
        probe.unlink(missing_ok=True)
    return None


def address_is_valid(program: str, identity: PublicIdentity) -> bool:
    """Whether the address of an identity is that of its key; peers talk to no other. Raises :class:`IdentityError`."""
    command = [program, "-i", "validate", str(identity)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise IdentityError(f"{program} could not validate the identity {identity.address}: {_reason(error, Path('/'))}") from None
    return done.returncode == 0


def generate_identities(program: str, homes: Iterable[Path]) -> None:
    """Make the identities of several homes at once, as many at a time as there are CPUs."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        list(pool.map(lambda home: generate_identity(program, home), homes))
