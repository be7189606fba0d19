"""The file systems that routers are made of: a base of Debian's packages and a layer with ours.

Both are kept in a cache under a hash of everything that went into them, so a change of packages makes a new
layer and nothing else ever does.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.host import debian_sources
from lab.process import run

PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "iproute2", "procps", "frr", "python3", "python3-cryptography", "python3-lxml", "python3-systemd",
    "iperf3", "tcpdump", "nftables", "iputils-ping", "ethtool", "jq", "curl", "libjansson4", "libmicrohttpd12",
    "libstdc++6", "util-linux", "kmod", "adduser", "bash", "less", "login", "python3-prompt-toolkit", "sudo",
    "isc-dhcp-client", "keepalived",
)  # fmt: skip

# What a router has no use for here, and what would slow its start.
MASKED = (
    "getty.target", "console-getty.service", "systemd-logind.service", "apt-daily.timer", "apt-daily-upgrade.timer",
    "e2scrub_all.timer", "fstrim.timer", "logrotate.timer", "dpkg-db-backup.timer", "systemd-tmpfiles-clean.timer",
    "systemd-resolved.service", "systemd-timesyncd.service", "systemd-firstboot.service", "systemd-update-utmp.service",
)  # fmt: skip

# VyOS's own (/etc/sysctl.d of vyos-1x), as far as they act on routes, addresses, neighbours, sockets and TCP. VyOS gives
# the devices of its configuration their link-local address itself; here :mod:`lab.lan` and :mod:`lab.wan` let the kernel.
SYSCTL = """
net.ipv4.conf.all.accept_redirects=0
net.ipv4.conf.all.arp_announce=2
net.ipv4.conf.all.bc_forwarding=1
net.ipv4.conf.all.ignore_routes_with_linkdown=1
net.ipv4.conf.all.promote_secondaries=1
net.ipv4.conf.all.rp_filter=0
net.ipv4.conf.default.accept_redirects=0
net.ipv4.conf.default.ignore_routes_with_linkdown=1
net.ipv4.conf.default.rp_filter=0
net.ipv4.icmp_errors_use_inbound_ifaddr=1
net.ipv4.ip_forward=1
net.ipv4.ip_nonlocal_bind=1
-net.ipv4.tcp_congestion_control=bbr
net.ipv6.conf.all.accept_ra=0
net.ipv6.conf.all.accept_redirects=0
net.ipv6.conf.all.autoconf=0
net.ipv6.conf.all.forwarding=1
net.ipv6.conf.all.ignore_routes_with_linkdown=1
net.ipv6.conf.all.keep_addr_on_down=1
net.ipv6.conf.default.accept_ra=0
net.ipv6.conf.default.accept_redirects=0
net.ipv6.conf.default.addr_gen_mode=1
net.ipv6.conf.default.autoconf=0
net.ipv6.conf.default.ignore_routes_with_linkdown=1
net.ipv6.conf.default.keep_addr_on_down=1
net.ipv6.ip_nonlocal_bind=1
net.ipv6.route.skip_notify_on_dev_down=1
"""
FILES = {
    "etc/sysctl.d/90-router.conf": SYSCTL,
    "etc/systemd/journald.conf.d/lab.conf": "[Journal]\nStorage=volatile\nRuntimeMaxUse=32M\nRateLimitBurst=0\n",
    "etc/machine-id": "",
    "etc/resolv.conf": "",
}


def cache_dir() -> Path:
    """Where built file systems are kept."""
    return Path(os.environ.get("ZTM_CACHE", "/var/cache/zerotier-multi")) / "lab"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def unmount(path: Path) -> None:
    """Unmount what is mounted at a path and below it."""
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for point in reversed([m for m in mounted if m == str(path) or m.startswith(f"{path}/")]):
        run(["umount", "--lazy", point])


def _clear(path: Path) -> None:
    """Take away what a build that was killed has left: first what it has mounted there, which is not only its own."""
    unmount(path)
    if path.exists():
        shutil.rmtree(path)


def _prune(kind: str, keep: str, most: int) -> None:
    """Leave the newest few of a kind and those that a lab has mounted, so that the cache does not grow for ever."""
    mounted = Path("/proc/mounts").read_text()
    old = sorted((p for p in cache_dir().glob(f"{kind}-*") if p.is_dir() and p.name != keep), key=lambda p: p.stat().st_mtime)
    for path in old[: max(0, len(old) - most)]:
        if str(path) not in mounted:
            shutil.rmtree(path, ignore_errors=True)


def base() -> Path:
    """The base file system; built when there is none for this recipe."""
    recipe = Path(__file__).read_text()
    target = cache_dir() / f"base-{_hash(recipe)}"
    with _locked(cache_dir() / "base.lock"):
        if not target.exists():
            part = target.with_suffix(".part")
            _clear(part)
            sources = cache_dir() / "sources.list"
            sources.write_text(debian_sources())
            run(
                [
                    "mmdebstrap", "--variant=minbase", "--mode=root", f"--include={','.join(PACKAGES)}",
                    '--dpkgopt=path-exclude="/usr/share/doc/*"', '--dpkgopt=path-exclude="/usr/share/man/*"',
                    '--dpkgopt=path-exclude="/usr/share/locale/*"', "bookworm", str(part), str(sources),
                ],
                timeout=900,
            )  # fmt: skip
            unmount(part)
            _finish(part)
            part.rename(target)
        os.utime(target)
        _prune("base", target.name, 1)
    return target


def _finish(root: Path) -> None:
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for unit in MASKED:
        link = root / "etc/systemd/system" / unit
        link.unlink(missing_ok=True)
        link.symlink_to("/dev/null")
    shutil.rmtree(root / "var/lib/apt/lists", ignore_errors=True)


def with_packages(debs: Sequence[Path]) -> list[Path]:
    """Layers, the upper one first, of a file system with our packages installed."""
    lower = base()
    if not debs:
        return [lower]
    digest = _hash(lower.name, *(hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(debs)))
    target = cache_dir() / f"layer-{digest}"
    with _locked(cache_dir() / "layer.lock"):
        if not target.exists():
            part, work, merged = (cache_dir() / f"{digest}.{kind}" for kind in ("part", "work", "merged"))
            for path in (part, work, merged):
                _clear(path)
                path.mkdir(parents=True)
            run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={part},workdir={work}", str(merged)])
            try:
                (merged / "debs").mkdir()
                for deb in debs:
                    shutil.copy(deb, merged / "debs")
                names = [f"/debs/{deb.name}" for deb in debs]
                run(["chroot", str(merged), "dpkg", "--install", *names], timeout=120)
                shutil.rmtree(merged / "debs")
            finally:
                run(["umount", str(merged)])
            shutil.rmtree(work, ignore_errors=True)
            merged.rmdir()
            part.rename(target)
        os.utime(target)
        _prune("layer", target.name, 12)
    return [target, lower]
