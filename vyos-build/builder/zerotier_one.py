"""The pinned zerotier-one package from ZeroTier's own repository, held against the repository's signature."""

from __future__ import annotations

import gzip
import hashlib
import re
import subprocess
import tempfile
from pathlib import Path

from builder.debs import Deb, read_deb
from builder.errors import BuildError
from builder.pins import EnginePin
from builder.reach import Need, read

_INDEX = "main/binary-amd64/Packages.gz"


def needs(pin: EnginePin) -> list[Need]:
    """What has to be reached for :func:`fetch`."""
    return [_need(pin, f"dists/{pin.suite}/InRelease")]


def _need(pin: EnginePin, path: str) -> Need:
    return Need("ZeroTier's package repository", f"{pin.repository}/{path}", "ZEROTIER_DEB=<file>")


def fetch(pin: EnginePin, into: Path) -> Deb:
    """Bring the package; key, release file, index and package each vouch for the next. Raises :class:`BuildError`."""
    with tempfile.TemporaryDirectory() as scratch:
        keyring = _keyring(pin, Path(scratch))
        release = _signed_text(read(_need(pin, f"dists/{pin.suite}/InRelease")), keyring, Path(scratch), pin)
    index = read(_need(pin, f"dists/{pin.suite}/{_INDEX}"))
    listed = re.search(rf"^ ([0-9a-f]{{64}}) +\d+ {re.escape(_INDEX)}$", release, re.MULTILINE)
    _demand(index, listed[1] if listed else "", f"the package index of {pin.repository}")
    fields = _entry(gzip.decompress(index).decode(), pin)
    data = read(_need(pin, fields["Filename"]))
    _demand(data, fields["SHA256"], f"{fields['Filename']} of {pin.repository}")
    path = into / f"zerotier-one_{pin.version}_amd64.deb"
    path.write_bytes(data)
    return check(path, pin)


def check(path: Path, pin: EnginePin) -> Deb:
    """Whether a file is the pinned package; raises :class:`BuildError`."""
    deb = read_deb(path)
    if (deb.package, deb.version, deb.architecture) != ("zerotier-one", pin.version, "amd64"):
        raise BuildError(
            f"{path} is {deb.package} {deb.version} for {deb.architecture}, not zerotier-one {pin.version} for amd64; "
            f"give that one, or change the pin in vyos-build/pins.toml"
        )
    if pin.sha256:
        _demand(path.read_bytes(), pin.sha256, str(path))
    return deb


def _demand(data: bytes, sha256: str, what: str) -> None:
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise BuildError(f"{what} has the SHA-256 {found} instead of {sha256 or 'one that is signed'}; do not use it")


def _keyring(pin: EnginePin, scratch: Path) -> Path:
    """A keyring with the pinned key alone, whatever else the key file holds."""
    key = read(Need("ZeroTier's signing key", pin.key, "ZEROTIER_DEB=<file>"))
    keyring = scratch / "keyring.gpg"
    gpg = ["gpg", "--homedir", str(scratch), "--batch", "--quiet", "--no-autostart"]
    subprocess.run([*gpg, "--import"], input=key, capture_output=True)  # what it did not take is not there below
    exported = subprocess.run([*gpg, "--export", pin.fingerprint], capture_output=True).stdout
    if not exported:
        raise BuildError(f"{pin.key} has no key {pin.fingerprint}; do not use packages of this repository")
    keyring.write_bytes(exported)
    return keyring


def _signed_text(data: bytes, keyring: Path, scratch: Path, pin: EnginePin) -> str:
    """What the signature of a release file covers."""
    signed, text = scratch / "InRelease", scratch / "Release"
    signed.write_bytes(data)
    done = subprocess.run(
        ["gpgv", "--homedir", str(scratch), "--keyring", str(keyring), "--output", str(text), str(signed)],
        capture_output=True,
    )
    if done.returncode:
        raise BuildError(f"the signature of {pin.repository} is not that of {pin.fingerprint}; do not use its packages")
    return text.read_text()


def _entry(index: str, pin: EnginePin) -> dict[str, str]:
    for stanza in index.split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z0-9-]+): (.*)$", stanza, re.MULTILINE))
        if (fields.get("Package"), fields.get("Version")) == ("zerotier-one", pin.version):
            return fields
    raise BuildError(
        f"{pin.repository} has no zerotier-one {pin.version} any more; "
        f"give it by hand with ZEROTIER_DEB=<file>, or change the pin in vyos-build/pins.toml"
    )
