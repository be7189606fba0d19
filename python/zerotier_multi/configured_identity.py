"""Identities that the configuration has, in the homes: put there, and taken back in favour of the home's own.

What a home had before lies beside it, in :data:`BEFORE`, as long as the configuration has another one; so a commit that is
rolled back is, and deleting the identity brings the earlier node back. A home that had none keeps the configured one, and one
into which somebody has copied another identity meanwhile keeps that.
"""

from __future__ import annotations

from pathlib import Path

from zerotier_multi.files import sync, write_atomic
from zerotier_multi.homes import BEFORE, GIVEN, own_identity
from zerotier_multi.identity import PublicIdentity, SecretIdentity


def settle(home: Path, configured: SecretIdentity | None) -> None:
    """Have the identity in a home that it shall have (0600). Raises OSError."""
    secret, before = home / "identity.secret", home / BEFORE
    if configured is not None:
        _give(secret, before, configured)
    elif before.exists():
        kept = before.read_bytes()
        if kept:
            _write(secret, kept if _is_given(home) else secret.read_bytes())
        before.unlink()
        (home / GIVEN).unlink(missing_ok=True)
        sync(home)


def _give(secret: Path, before: Path, configured: SecretIdentity) -> None:
    present = secret.read_bytes() if secret.exists() else b""
    given, known = secret.with_name(GIVEN), str(configured.public)
    if present.decode("ascii", "replace").strip() == configured.text:
        if before.exists() and not given.exists():
            _write(given, f"{known}\n".encode())
        return
    if before.exists() and _is_given(secret.parent):
        known = f"{_public(present)}\n{known}"
    else:
        _write(before, present)
    _write(given, f"{known}\n".encode())
    _write(secret, f"{configured.text}\n".encode())


def _is_given(home: Path) -> bool:
    """Whether the identity in a home is one of the configuration; also where there is none."""
    secret, given = home / "identity.secret", home / GIVEN
    if not secret.exists() or not given.exists():
        return True
    return _public(secret.read_bytes()) in given.read_text("ascii", "replace").split()


def _public(secret: bytes) -> str:
    return ":".join(secret.decode("ascii", "replace").strip().split(":")[:3])


def _write(path: Path, content: bytes) -> None:
    """With an identity goes its public copy, which ztnode does not write again."""
    if path.name == "identity.secret":
        write_atomic(path.with_name("identity.public"), _public(content).encode(), 0o600)
    write_atomic(path, content, 0o600)
    sync(path)
    sync(path.parent)


def coming_identity(home: Path, configured: SecretIdentity | None) -> PublicIdentity | None:
    """What :func:`settle` would leave in a home; None where it leaves none. Raises OSError, ValueError."""
    if configured is not None:
        return configured.public
    try:
        kept = (home / BEFORE).read_text("ascii")
    except FileNotFoundError:
        kept = ""
    return PublicIdentity.parse(":".join(kept.strip().split(":")[:3])) if kept and _is_given(home) else own_identity(home)
