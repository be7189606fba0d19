"""What this box is and has, read from the kernel and the file system; the facts that :mod:`checks` judges."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path

from zerotier_multi.cpu import Cpu, Topology, parse_cpu_list, split_classes
from zerotier_multi.engine_choice import MINIMUM_VERSION

_PATIENCE = 60.0  # seconds for a program to start: at boot all read the disk at once
ENGINE_PATH = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin:/sbin:/bin"


def read_topology(sysfs: Path = Path("/sys"), allowed: Iterable[int] | None = None) -> Topology:
    """Online CPUs with their cores and classes.

    Efficiency cores are known from, in this order: the PMU of a hybrid Intel (``cpu_core`` and ``cpu_atom``
    both present), ``cpu_capacity`` (ARM, and x86 hybrids from 6.12), the highest frequency. ``allowed``
    restricts to CPUs that this process may use at all (containers); None takes every online one.
    """
    cpus = sysfs / "devices/system/cpu"
    online = set(parse_cpu_list(_text(cpus / "online") or "0"))
    if allowed is not None:
        online &= set(allowed)
    efficiency = _efficiency(sysfs, online)
    topology = []
    for number in sorted(online):
        siblings = _text(cpus / f"cpu{number}/topology/thread_siblings_list")
        threads = (set(parse_cpu_list(siblings)) if siblings else {number}) & online
        topology.append(Cpu(number, min(threads | {number}), number in efficiency))
    return tuple(topology)


def _efficiency(sysfs: Path, online: set[int]) -> set[int]:
    core, atom = (_text(sysfs / f"devices/{name}/cpus") for name in ("cpu_core", "cpu_atom"))
    if core and atom:
        return set(parse_cpu_list(atom)) & online
    for leaf in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        found = {n: _text(sysfs / f"devices/system/cpu/cpu{n}/{leaf}") for n in online}
        if online and all(value and value.isdigit() for value in found.values()):
            return split_classes({n: int(value) for n, value in found.items() if value})
    return set()


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:
        return None


def own_topology(slice_of_services: Path = Path("/sys/fs/cgroup/system.slice")) -> Topology:
    """Topology of this box as far as a service may use it: who commits may have other CPUs (``AllowedCPUs=``, ``taskset``)."""
    allowed = os.sched_getaffinity(1)
    of_services = _text(slice_of_services / "cpuset.cpus.effective")
    return read_topology(allowed=allowed & set(parse_cpu_list(of_services)) if of_services else allowed)


def isolated_cpus(sysfs: Path = Path("/sys")) -> tuple[int, ...]:
    """Online CPUs that run only what is pinned to them (``isolcpus=``), as far as this process may pin something there.

    init, and all that it starts, is kept off them, so that they are not in :func:`own_topology`.
    """
    cpus = sysfs / "devices/system/cpu"
    isolated, online = (set(parse_cpu_list(text)) if (text := _text(cpus / name)) else set() for name in ("isolated", "online"))
    return tuple(cpu for cpu in sorted(isolated & online) if _may_use(cpu))


def _may_use(cpu: int) -> bool:
    """The kernel leaves out what a container was not given. Nothing moves there: the CPUs of before stay allowed."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, before | {cpu})
        return cpu in os.sched_getaffinity(0)
    finally:
        os.sched_setaffinity(0, before)


def find_engines(path: str = ENGINE_PATH) -> dict[str, str]:
    """Installed engines that are recent enough: name -> absolute path."""
    found = {}
    for name, minimum in MINIMUM_VERSION.items():
        program = shutil.which(name, path=path)
        if program and engine_version(program) >= minimum:
            found[name] = program
    return found


def engine_version(program: str) -> tuple[int, ...]:
    """Version that an engine reports with ``-v``; (0,) for a program that does not answer as one within a minute."""
    try:
        answer = subprocess.run(
            [program, "-v"], capture_output=True, text=True, timeout=_PATIENCE, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return (0,)
    match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)\S*", answer.stdout.strip())
    return tuple(int(part) for part in match.groups()) if match else (0,)


def has_tun(device: Path = Path("/dev/net/tun")) -> bool:
    """Whether a TAP can be made: the device exists and its driver answers."""
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def taken_ports(ports: Iterable[int]) -> dict[int, str]:
    """Which of the ports another program holds: port -> what is in the way.

    An engine needs the UDP port on every address and the TCP port for its local API.
    """
    found = {}
    for port in ports:
        for kind, name in ((socket.SOCK_DGRAM, "UDP"), (socket.SOCK_STREAM, "TCP")):
            if any(not _can_bind(family, kind, port) for family in (socket.AF_INET, socket.AF_INET6)):
                found[port] = f"another program uses {name} port {port}"
                break
    return found


def _can_bind(family: socket.AddressFamily, kind: socket.SocketKind, port: int) -> bool:
    try:
        with socket.socket(family, kind) as probe:
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if kind == socket.SOCK_STREAM:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", port))
    except OSError as error:
        return error.errno != errno.EADDRINUSE  # no IPv6 at all, say, takes nothing away
    return True
