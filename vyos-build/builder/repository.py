"""A local apt repository of one suite, signed with a key of its own, as vyos-build's mirrors are laid out."""

from __future__ import annotations

import email.utils
import gzip
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.control import Stanza, holds, stanzas
from builder.errors import BuildError

KEY = "key.asc"
_INDEX = "main/binary-amd64/Packages"


@dataclass(frozen=True)
class Given:
    """A package file with its own control data."""

    path: Path
    stanza: Stanza

    @property
    def name(self) -> str:
        """Its name."""
        return self.stanza["Package"]


def read_given(directory: Path) -> list[Given]:
    """Every package below a directory, the newest where there are several of one name; raises :class:`BuildError`.

    Debug symbols and packages for other machines are left out.
    """
    found: list[Given] = []
    for path in sorted(directory.rglob("*.deb")):
        said = subprocess.run(["dpkg-deb", "--field", str(path)], capture_output=True, text=True, check=False)
        parsed = list(stanzas(said.stdout))
        if said.returncode or not parsed:
            raise BuildError(f"{path} is not a readable Debian package; build it again, or remove it")
        package = Given(path, parsed[0])
        if package.name.endswith("-dbgsym") or package.stanza["Architecture"] not in ("amd64", "all"):
            continue
        found.append(package)
    return newest(found)


def newest(packages: Iterable[Given]) -> list[Given]:
    """The newest of each name; of the same version the last."""
    found: dict[str, Given] = {}
    for package in packages:
        known = found.get(package.name)
        if known is None or holds(package.stanza["Version"], "ge", known.stanza["Version"]):
            found[package.name] = package
    return list(found.values())


def write(packages: Sequence[Given], into: Path, suite: str) -> None:
    """Make the repository; one that is there already is replaced once the new one is whole. Raises :class:`BuildError`."""
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=".repository-") as scratch:
        root = Path(scratch) / "new"
        pool = root / "pool"
        pool.mkdir(parents=True)
        text = "".join(_entry(package, pool) for package in sorted(packages, key=lambda p: p.name))
        _index(root / f"dists/{suite}", text, suite)
        _sign(root, suite)
        old = Path(scratch) / "old"
        if into.exists():
            into.rename(old)
        root.rename(into)


def write_flat(packages: Sequence[Given], into: Path) -> None:
    """An unsigned repository in one directory, for the apt of a build: ``deb [trusted=yes] file:DIR ./``."""
    shutil.rmtree(into, ignore_errors=True)
    pool = into / "pool"
    pool.mkdir(parents=True)
    (into / "Packages").write_text("".join(_entry(package, pool) for package in newest(packages)))


def _entry(package: Given, pool: Path) -> str:
    target = pool / package.path.name
    # Packages are big and a copy is not changed by anybody: a link where the disk can.
    try:
        os.link(package.path, target)
    except OSError:
        shutil.copyfile(package.path, target)
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    said = {
        **package.stanza, "Filename": f"pool/{target.name}", "Size": str(target.stat().st_size), "SHA256": digest,
    }  # fmt: skip
    return "".join(f"{name}: {_folded(value)}\n" for name, value in said.items()) + "\n"


def _folded(value: str) -> str:
    return value.replace("\n", "\n ")


def _index(dist: Path, text: str, suite: str) -> None:
    (dist / _INDEX).parent.mkdir(parents=True)
    (dist / _INDEX).write_text(text)
    (dist / f"{_INDEX}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    sums = []
    for name in (_INDEX, f"{_INDEX}.gz"):
        data = (dist / name).read_bytes()
        sums.append(f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}\n")
    (dist / "Release").write_text(
        f"Origin: VyOS, built here\nSuite: {suite}\nCodename: {suite}\nArchitectures: amd64\nComponents: main\n"
        f"Date: {email.utils.formatdate(usegmt=True)}\nSHA256:\n{''.join(sums)}"
    )


def _sign(root: Path, suite: str) -> None:
    """Sign it with a key that is thrown away: whoever writes the repository could sign it anyhow."""
    with tempfile.TemporaryDirectory() as home:
        gpg = ["gpg", "--homedir", home, "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]
        steps = (
            [*gpg, "--quick-generate-key", "VyOS packages built here <root@localhost>", "rsa3072", "sign", "never"],
            [*gpg, "--armor", "--output", str(root / KEY), "--export"],
            [*gpg, "--clearsign", "--output", str(root / f"dists/{suite}/InRelease"), str(root / f"dists/{suite}/Release")],
        )
        try:
            for step in steps:
                said = subprocess.run(step, capture_output=True, text=True, check=False)
                if said.returncode:
                    raise BuildError(f"gpg cannot sign the repository ({said.stderr.strip()}); check the installation of gnupg")
        finally:
            subprocess.run(["gpgconf", "--homedir", home, "--kill", "gpg-agent"], capture_output=True, check=False)
