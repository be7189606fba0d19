"""The zerotier-one package: from a repository that is made here and signed, and given by hand."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from builder import zerotier_one
from builder.errors import BuildError
from builder.pins import EnginePin
from tests.vyos_build.debs import make_deb


class Repository:
    """A package repository below a directory, with a signing key of its own."""

    def __init__(self, root: Path, keys: str) -> None:
        self.root = root
        self._gpg = ["gpg", "--homedir", keys, "--batch", "--quiet", "--passphrase", ""]
        (root / "pool").mkdir(parents=True)
        self._run("--quick-generate-key", "Test <test@example.com>", "ed25519", "sign", "never")
        listing = self._run("--with-colons", "--list-keys")
        fingerprint = next(line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr"))
        (root / "key.asc").write_text(self._run("--armor", "--export"))
        self.deb = make_deb(root / "pool", "zerotier-one", "1.16.2")
        self.pin = EnginePin("1.16.2", f"file://{root}", "bookworm", f"file://{root}/key.asc", fingerprint, "")
        self.publish()

    def _run(self, *words: str) -> str:
        return subprocess.run([*self._gpg, *words], check=True, capture_output=True, text=True).stdout

    def publish(self) -> None:
        """Write index and signed release file of what the pool has."""
        digest = hashlib.sha256(self.deb.read_bytes()).hexdigest()
        index = gzip.compress(
            f"Package: zerotier-one\nVersion: 1.16.2\nFilename: pool/{self.deb.name}\nSHA256: {digest}\n\n"
            "Package: zerotier-one\nVersion: 1.10.0\nFilename: pool/old.deb\nSHA256: 00\n".encode()
        )
        place = self.root / "dists/bookworm/main/binary-amd64/Packages.gz"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(index)
        release = self.root / "dists/bookworm/Release"
        line = f" {hashlib.sha256(index).hexdigest()} {len(index)} main/binary-amd64/Packages.gz\n"
        release.write_text(f"Codename: bookworm\nSHA256:\n{line}")
        (self.root / "dists/bookworm/InRelease").unlink(missing_ok=True)
        self._run("--clearsign", "--output", str(release.with_name("InRelease")), str(release))


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with tempfile.TemporaryDirectory() as keys:  # a short path: gpg's agent has its socket there
        yield Repository(tmp_path / "repository", keys)
        subprocess.run(["gpgconf", "--homedir", keys, "--kill", "all"], check=True)


def test_the_whole_chain(repository: Repository, tmp_path: Path) -> None:
    deb = zerotier_one.fetch(repository.pin, tmp_path)
    assert (deb.package, deb.version, deb.architecture) == ("zerotier-one", "1.16.2", "amd64")
    assert deb.path.read_bytes() == repository.deb.read_bytes()


def refusal(pin: EnginePin, into: Path) -> str:
    with pytest.raises(BuildError) as refused:
        zerotier_one.fetch(pin, into)
    return str(refused.value)


def test_another_key(repository: Repository, tmp_path: Path) -> None:
    pin = replace(repository.pin, fingerprint="0" * 40)
    assert refusal(pin, tmp_path) == f"{pin.key} has no key {'0' * 40}; do not use packages of this repository"


def test_a_release_file_that_nobody_has_signed(repository: Repository, tmp_path: Path) -> None:
    release = repository.root / "dists/bookworm/InRelease"
    release.write_text(release.read_text().replace("Codename: bookworm", "Codename: other"))
    assert refusal(repository.pin, tmp_path).startswith(f"the signature of {repository.pin.repository} is not that of")


def test_an_index_that_the_release_file_does_not_vouch_for(repository: Repository, tmp_path: Path) -> None:
    index = repository.root / "dists/bookworm/main/binary-amd64/Packages.gz"
    index.write_bytes(gzip.compress(b"Package: zerotier-one\n"))
    assert refusal(repository.pin, tmp_path).startswith("the package index of")


def test_a_package_that_the_index_does_not_vouch_for(repository: Repository, tmp_path: Path) -> None:
    repository.deb.write_bytes(repository.deb.read_bytes() + b"\n")
    said = refusal(repository.pin, tmp_path)
    assert "has the SHA-256" in said and said.endswith("; do not use it")


def test_a_version_that_is_gone(repository: Repository, tmp_path: Path) -> None:
    pin = replace(repository.pin, version="1.99.0")
    assert refusal(pin, tmp_path) == (
        f"{pin.repository} has no zerotier-one 1.99.0 any more; "
        "give it by hand with ZEROTIER_DEB=<file>, or change the pin in vyos-build/pins.toml"
    )


def test_no_network(repository: Repository, tmp_path: Path) -> None:
    pin = replace(repository.pin, repository="http://127.0.0.1:9/debian")
    assert refusal(pin, tmp_path) == (
        "could not reach ZeroTier's package repository (http://127.0.0.1:9/debian/dists/bookworm/InRelease: "
        "[Errno 111] Connection refused); give it by hand with ZEROTIER_DEB=<file>"
    )


PIN = EnginePin("1.16.2", "", "", "", "", "")


@pytest.mark.parametrize(("package", "version"), [("zerotier-one", "1.16.2-vyos1"), ("ztnode", "1.16.2")])
def test_given_by_hand_but_another(tmp_path: Path, package: str, version: str) -> None:
    path = make_deb(tmp_path, package, version)
    with pytest.raises(BuildError) as refused:
        zerotier_one.check(path, PIN)
    assert str(refused.value) == (
        f"{path} is {package} {version} for amd64, not zerotier-one 1.16.2 for amd64; "
        "give that one, or change the pin in vyos-build/pins.toml"
    )


def test_given_by_hand_with_a_pinned_digest(tmp_path: Path) -> None:
    path = make_deb(tmp_path, "zerotier-one", "1.16.2")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert zerotier_one.check(path, replace(PIN, sha256=digest)).sha256 == digest
    with pytest.raises(BuildError, match="; do not use it$"):
        zerotier_one.check(path, replace(PIN, sha256="0" * 64))


def test_no_package_at_all(tmp_path: Path) -> None:
    path = tmp_path / "zerotier-one.deb"
    os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 10)
    with pytest.raises(BuildError) as refused:
        zerotier_one.check(path, PIN)
    assert str(refused.value) == f"{path} is not a readable Debian package; give another one"
