"""From processes to the commands of conf mode; pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from zerotier_multi import names
from zerotier_multi.importing.home import read_homes
from zerotier_multi.importing.openwrt import is_uci, read_uci
from zerotier_multi.importing.process import ImportProblem, Process
from zerotier_multi.importing.vyos import is_vyos, read_vyos

MOST = 4 << 20  # bytes of a configuration file
# Copies $0 to $1, but never over another identity; one simple command, so that any shell takes it as it is pasted.
_COPY = """sudo sh -c '[ -e "$1" ] && { echo "$1 exists"; exit 1; }; install -D -m 0600 "$0" "$1"'"""


def read_source(path: Path) -> list[list[Process]]:
    """What a file or directory says: the processes of each bundle. Raises :class:`ImportProblem`."""
    try:
        return _read(path)
    except OSError as error:  # the name of another file may stand in it, and be one that no file can have
        raise ImportProblem(f"{path} cannot be read ({error.strerror})") from None


def _read(path: Path) -> list[list[Process]]:
    if path.is_dir():
        return [read_homes(path)]
    with path.open("rb") as file:
        text = file.read(MOST).decode(errors="replace")
    if is_uci(text):
        return [[process] for process in read_uci(text, path)]
    if is_vyos(text):
        found = read_vyos(text)
        containers = [p for p in found if p.home is None or not p.home.startswith("/config/vyos-generated-zerotier/")]
        return [*([containers] if containers else []), *([p] for p in found if p not in containers)]
    raise ImportProblem(
        f"{path} is not a known source; give a home of zerotier-one, OpenWrt's /etc/config/zerotier or a configuration of VyOS"
    )


def commands(bundles: Sequence[Sequence[Process]], taken: Collection[str] = ()) -> list[str]:
    """The lines of all bundles, named as before where the names fit, else in their order, but by no name that is ``taken``."""
    lines: list[str] = []
    for processes, usual, name in zip(bundles, _named(bundles), _named(bundles, taken), strict=True):
        if name != usual:
            lines.append(
                f"# {name} instead of {usual}: names of bundles that this router has, or keeps identities of, are left out"
            )
        lines += map(_safe, _bundle(name, processes))
    return lines


def _named(bundles: Sequence[Sequence[Process]], taken: Collection[str] = ()) -> list[str]:
    before = [processes[0].name if len(processes) == 1 and _is_bundle(processes[0].name) else None for processes in bundles]
    used = {*before, *taken}
    free = iter(f"zt{n}" for n in range(names.MAX_BUNDLE + 1) if f"zt{n}" not in used)
    found = [name if name and name not in taken else next(free, None) for name in before]
    if None in found:
        raise ImportProblem(f"the source has more processes than bundles are free; leave out some (zt0 to zt{names.MAX_BUNDLE})")
    return [name for name in found if name]


def _safe(line: str) -> str:
    """A line of a file that somebody else wrote is pasted: it must be one line, and nothing that a terminal acts on."""
    return line if line.isprintable() else "# A line with control characters is left out"


def _is_bundle(name: str) -> bool:
    return bool(re.fullmatch(r"zt(0|[1-9][0-9]{0,2})", name)) and int(name[2:]) <= names.MAX_BUNDLE


def _bundle(bundle: str, processes: Sequence[Process]) -> Iterable[str]:
    """One bundle; process K becomes instance K."""
    base = f"set interfaces zerotier {bundle}"
    numbered = list(enumerate(processes, start=1))
    if len(processes) > names.MAX_INSTANCES:
        yield f"# Only {names.MAX_INSTANCES} of {len(processes)} processes: a bundle has no more instances"
        numbered = numbered[: names.MAX_INSTANCES]
    yield f"{base} instances {len(numbered)}"
    first = processes[0]
    if first.description:
        yield f"{base} description {shlex.quote(first.description)}"
    off = [k for k, process in numbered if process.disabled]
    if len(off) == len(numbered):
        yield f"{base} disable"
    else:
        yield from (f"{base} instance {k} disable" for k in off)
    yield from _networks(base, numbered)
    yield from _ports(base, numbered)
    for k, process in numbered:
        yield from (f"{base} instance {k} listen-address {shlex.quote(address)}" for address in process.listen)
    for line in first.settings:
        yield f"{base} {line}"
    for k, process in numbered:
        where = f"{process.name}: " if len(processes) > 1 else ""
        yield from (f"# {where}{remark}" for remark in process.remarks)
        yield from (f"# {where}differs from the first process: {line}" for line in process.settings if line not in first.settings)
        yield from (
            f"# {where}did not have what the bundle gets from the first process: {line}"
            for line in first.settings
            if line not in process.settings
        )
        if process.networks[1:] and len(numbered) > 1:
            yield f"# {where}also joins {', '.join(process.networks[1:])}: several instances have one network each; set another bundle for it"
    yield "# Still to set: transit prefix and site, address, remotes; see docs/vyos.md"
    for k, process in numbered:
        target = f"{names.home(bundle, k)}/identity.secret"
        if process.home:
            secret = shlex.quote(f"{process.home}/identity.secret")
            yield f"# Keep its node, before the first commit: {_COPY} {secret} {target}"
        elif process.secret:  # what is typed after the command is in no list of processes and no history
            yield (
                f"# Keep its node, before the first commit: {_COPY} /dev/stdin {target}; then paste the value of "
                f"{process.secret} without its quotes, and type Enter and Ctrl-D"
            )


def _networks(base: str, numbered: Sequence[tuple[int, Process]]) -> Iterable[str]:
    first = numbered[0][1].networks
    if first and all(process.networks[:1] == first[:1] for _k, process in numbered):
        for network in first if len(numbered) == 1 else first[:1]:
            yield f"{base} network-id {shlex.quote(network)}"
        return
    for k, process in numbered:
        yield (
            f"{base} instance {k} network-id {shlex.quote(process.networks[0])}"
            if process.networks
            else f"# {process.name} has joined no network"
        )


def _ports(base: str, numbered: Sequence[tuple[int, Process]]) -> Iterable[str]:
    """Ports that follow one another are the first one's; others stay each with its instance. Port 0 is one that ZeroTier chooses."""
    first = numbered[0][1].port
    if first and all(process.port == first + k - 1 for k, process in numbered):
        yield f"{base} primary port {first}"
        return
    yield from (f"{base} instance {k} port {process.port}" for k, process in numbered if process.port)
