"""Archives of homes: one encrypted file that takes the identities of a router to another disk or box.

A file is :data:`_MAGIC`, 16 bytes of salt, 12 of nonce, then JSON sealed by ChaCha20-Poly1305 under a key that scrypt makes
of the passphrase; all before the seal is authenticated with it. The costs of scrypt belong to the format, so that a file
cannot ask for more. The JSON names files of homes; nothing but what :func:`is_archived` knows is taken from it, sealed or not.

Both algorithms come with what vyos-1x and Debian have: hashlib, and python3-cryptography. OpenSSL's ``enc`` authenticates
nothing, gpg wants an agent for its passphrase, and VyOS has no age.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zerotier_multi import names
from zerotier_multi.identity import PublicIdentity, secret_is_sound

_MAGIC = b"zerotier-multi archive 1\n"
_SALT, _NONCE = 16, 12
_COST, _BLOCK = 1 << 17, 8  # scrypt's N and r: 128 MiB, some tenths of a second
LIMIT = 16 << 20  # bytes of an archive
SHORTEST = 12  # characters of a passphrase
# What of a home no commit can make again, also where the instance is a controller. The token is not among it, a new box
# makes its own.
_FILES = re.compile(r"identity\.secret|planet|networks\.d/[0-9a-f]{16}\.conf|moons\.d/[0-9a-f]{16}\.moon")
_OF_CONTROLLER = re.compile(r"controller\.d/network/([0-9a-f]{16})(\.json|/member/[0-9a-f]{10}\.json)")

Home = Mapping[str, bytes]  # content of the files, by path below the home
Homes = Mapping[tuple[str, int], Home]  # by bundle and instance


class ArchiveProblem(ValueError):
    """It is no archive, or not to be opened; the text is the second half of a sentence."""


@dataclass(frozen=True)
class Archive:
    """What is in an archive; ``homes`` have an identity each."""

    router: str
    created: str  # ISO 8601, UTC
    homes: Homes

    def node(self, place: tuple[str, int]) -> str:
        """The node of a home."""
        return self.identity(place).address

    def identity(self, place: tuple[str, int]) -> PublicIdentity:
        """The public identity of a home."""
        return public_part(self.homes[place]["identity.secret"])

    def controls(self, place: tuple[str, int]) -> list[str]:
        """The networks that the node of a home is the controller of."""
        return [network for network in networks(self.homes[place]) if network.startswith(self.node(place))]


def public_part(secret: bytes) -> PublicIdentity:
    """The public identity in the content of an ``identity.secret``. Raises ValueError."""
    return PublicIdentity.parse(":".join(secret.decode("ascii").strip().split(":")[:3]))


def networks(home: Home) -> list[str]:
    """The networks that the controller of a home has."""
    return sorted(network for name in home if completes(name) and (network := controlled_by(name)))


def is_archived(name: str) -> bool:
    """Whether a file of a home belongs into archives."""
    return bool(_FILES.fullmatch(name) or _OF_CONTROLLER.fullmatch(name))


def controlled_by(name: str) -> str | None:
    """The network that a file of a home tells its controller of; None for other files."""
    match = _OF_CONTROLLER.fullmatch(name)
    return match[1] if match else None


def completes(name: str) -> bool:
    """Whether a file makes a home complete: the identity, and a network, without which its members count for nothing."""
    return name == "identity.secret" or name == f"controller.d/network/{controlled_by(name)}.json"


def pack(archive: Archive) -> bytes:
    """The text that is sealed."""
    homes = {
        f"{bundle}/{number}": {name: base64.b64encode(content).decode() for name, content in sorted(home.items())}
        for (bundle, number), home in sorted(archive.homes.items())
    }
    return json.dumps({"router": archive.router, "created": archive.created, "homes": homes}).encode()


def unpack(content: bytes) -> Archive:
    """The other way round. Raises :class:`ArchiveProblem` for everything that :func:`pack` would not have written."""
    try:
        data = json.loads(content)
        homes = {_place(place): _home(place, files) for place, files in data["homes"].items()}
        return Archive(_text(data["router"]), _text(data["created"]), homes)
    except ArchiveProblem:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ArchiveProblem("was sealed with content of another form") from None


def _place(text: str) -> tuple[str, int]:
    bundle, _slash, number = text.partition("/")
    names.bundle_number(bundle)
    if not re.fullmatch("[1-9][0-9]?", number, re.ASCII) or int(number) > names.MAX_INSTANCES:
        raise ValueError
    return bundle, int(number)


def _home(place: str, files: Mapping[str, str]) -> Home:
    if not all(is_archived(name) for name in files):
        raise ArchiveProblem(f"has files of {place} that no home has")
    found = {name: base64.b64decode(content, validate=True) for name, content in files.items()}
    secret = found["identity.secret"].decode("ascii")
    if not secret_is_sound(secret):
        raise ArchiveProblem(f"has a corrupt identity of {place}")
    public_part(secret.encode())
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() or len(value) > 255:
        raise ValueError
    return value


def seal(content: bytes, passphrase: bytes, salt: bytes, nonce: bytes) -> bytes:
    """The file; ``salt`` (16 bytes) and ``nonce`` (12) must be random. Raises MemoryError."""
    head = _MAGIC + salt + nonce
    return head + _cipher(passphrase, salt).encrypt(nonce, content, head)


def unseal(file: bytes, passphrase: bytes) -> bytes:
    """What was sealed. Raises :class:`ArchiveProblem`, MemoryError."""
    from cryptography.exceptions import InvalidTag

    head = file[: len(_MAGIC) + _SALT + _NONCE]
    salt, nonce = head[len(_MAGIC) : -_NONCE], head[-_NONCE:]
    if fault := foreign(file):
        raise ArchiveProblem(fault)
    try:
        return bytes(_cipher(passphrase, salt).decrypt(nonce, file[len(head) :], head))
    except InvalidTag:
        raise ArchiveProblem("cannot be opened: the passphrase is wrong, or the file is damaged or cut") from None


def foreign(file: bytes) -> str | None:
    """Why a file is certainly not an archive, before a passphrase is asked for; None where it may be one."""
    if not file.startswith(_MAGIC):
        return "is not an archive of zerotier-multi"
    if len(file) > LIMIT:
        return f"is larger than an archive can be ({LIMIT >> 20} MiB)"
    return "is cut; copy it again" if len(file) < len(_MAGIC) + _SALT + _NONCE + 16 else None


def _cipher(passphrase: bytes, salt: bytes) -> Any:
    # Loaded here, because every command of op mode loads this module and few seal anything
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    key = hashlib.scrypt(passphrase, salt=salt, n=_COST, r=_BLOCK, p=1, maxmem=2 * 128 * _BLOCK * _COST, dklen=32)
    return ChaCha20Poly1305(key)
