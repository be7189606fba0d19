"""What Debian's own archive offers to an image, read from its package indices."""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Iterable
from functools import cmp_to_key
from pathlib import Path

from builder.control import Stanza, Stock, clauses, holds, stanzas
from builder.errors import BuildError
from builder.reach import Need, read

# The mirror that has a package, added to each stanza: the field "Filename" starts there.
MIRROR = "Mirror"
AREAS = ("main", "contrib", "non-free", "non-free-firmware")


def indices(mirror: str, security: str, distribution: str) -> list[Need]:
    """The indices of the suites that vyos-build lets an image take packages from.

    Its backports are left out: vyos-build keeps them back from everything but iproute2.
    """
    suites = [(mirror, distribution, "--debian-mirror URL"), (mirror, f"{distribution}-updates", "--debian-mirror URL")]
    suites.append((security, f"{distribution}-security", "--debian-security-mirror URL"))
    return [
        Need(f"Debian's index of {suite} {area}", f"{url}/dists/{suite}/{area}/binary-amd64/Packages.xz", by_hand)
        for url, suite, by_hand in suites
        for area in AREAS
    ]


def read_stock(needs: Iterable[Need]) -> tuple[Stock, list[Stanza]]:
    """Everything in the indices; raises :class:`BuildError`."""
    stock = Stock()
    everything: list[Stanza] = []
    for need in needs:
        try:
            text = lzma.decompress(read(need)).decode()
        except (lzma.LZMAError, UnicodeDecodeError) as error:
            raise BuildError(f"{need.what} ({need.url}) is damaged ({error}); name another mirror with {need.by_hand}") from None
        mirror = need.url.partition("/dists/")[0]
        everything += ({**stanza, MIRROR: mirror} for stanza in stanzas(text))
    stock.add(everything)
    return stock, everything


def bring(package: str, version: str, everything: Iterable[Stanza], into: Path) -> Path:
    """The file of a package that the indices list; raises :class:`BuildError`."""
    stanza = next(s for s in everything if (s["Package"], s["Version"]) == (package, version))
    try:
        name, digest = stanza["Filename"], stanza["SHA256"]
    except KeyError as error:
        raise BuildError(
            f"Debian's index has no {error} of {package} {version}; name another mirror with --debian-mirror URL"
        ) from None
    need = Need(f"Debian's {package}", f"{stanza[MIRROR]}/{name}", "--debian-mirror URL")
    data = read(need)
    if hashlib.sha256(data).hexdigest() != digest:
        raise BuildError(f"{need.what} ({need.url}) is damaged; name another mirror with {need.by_hand}")
    path = into / Path(name).name
    path.write_bytes(data)
    return path


def newest_kernel(packages: Iterable[Stanza]) -> str:
    """The kernel's package that Debian's ``linux-image-amd64`` takes, in its newest version there; "" for none."""

    def order(one: Stanza, other: Stanza) -> int:
        return 1 if holds(one["Version"], "gt", other["Version"]) else -1

    heads = sorted((s for s in packages if s["Package"] == "linux-image-amd64"), key=cmp_to_key(order))
    for clause in clauses(heads[-1].get("Depends", "")) if heads else []:
        return clause[0].name
    return ""
