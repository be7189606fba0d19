"""What a lab needs of the machine it runs on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from lab.process import LabError, run

PROGRAMS = {"mmdebstrap": "mmdebstrap", "systemd-nspawn": "systemd-container", "ip": "iproute2", "tc": "iproute2",
            "nsenter": "util-linux", "iperf3": "iperf3", "tcpdump": "tcpdump", "pgrep": "procps",
            "nft": "nftables", "dnsmasq": "dnsmasq-base", "ethtool": "ethtool"}  # fmt: skip


def check_root() -> None:
    """Raise :class:`LabError` when this process is not root's."""
    if os.geteuid() != 0:
        raise LabError("a lab needs root; use sudo")


def check_host() -> None:
    """Raise :class:`LabError` with one sentence when this machine cannot carry a lab."""
    check_root()
    for program, package in PROGRAMS.items():
        if not shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            raise LabError(f"{program} is missing; install it with: apt install {package}")
    if not Path("/dev/net/tun").exists():
        run(["modprobe", "tun"], check=False)
        if not Path("/dev/net/tun").exists():
            raise LabError("/dev/net/tun is missing: load the kernel module tun")
    if "overlay" not in Path("/proc/filesystems").read_text():
        run(["modprobe", "overlay"], check=False)
        if "overlay" not in Path("/proc/filesystems").read_text():
            raise LabError("the kernel has no overlay file system: load the module overlay")


def debian_sources() -> str:
    """Lines for a sources.list: the Debian mirrors that this machine itself uses.

    Raises :class:`LabError` when it has none.
    """
    lines = run(
        [
            "apt-get", "indextargets", "--format", "deb $(REPO_URI) $(RELEASE) $(COMPONENT)",
            "Created-By: Packages", "Origin: Debian",
        ]
    ).stdout.splitlines()  # fmt: skip
    found = sorted({line for line in lines if " bookworm" in line})
    if not found:
        raise LabError("apt has no Debian 12 package lists; check /etc/apt/sources.list, then run apt-get update")
    return "\n".join(found) + "\n"
