"""Clamps the MSS of TCP connections that the router forwards through bundles: a table of nftables of our own.

Paths through a bundle take smaller packets than the LANs at its ends. The kernel says so to who sends too big a one,
but firewalls eat such messages; so both ends of a connection are told at its beginning, in its SYN packets, as
``adjust-mss`` does on VyOS's other interfaces (python/vyos/ifconfig/interface.py there). Those set it in SYNs that
leave the interface; here also in those that come in, for a remote that does not do the same.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence

from zerotier_multi.netlink import NETLINK_NETFILTER, EventSocket
from zerotier_multi.pathd.desired import DeviceState
from zerotier_multi.plan import CLAMP_TO_PMTU, NO_CLAMP, Plan

NAME = "zerotier_multi"
TABLE = f"inet {NAME}"
LOOK = 60.0  # seconds after which nft is tried again where it has failed, and the table is read again where nothing tells of it
TIMEOUT = 10.0  # seconds that nft may take
_GROUP_NFTABLES = 7  # NFNLGRP_NFTABLES (linux/netfilter/nfnetlink.h)
_HEADERS = {4: 40, 6: 60}  # bytes of the IP and TCP headers without options

_ABSENT = f"table {TABLE}\ndelete table {TABLE}\n"


class Mss:
    """Keeps the table. ``nft`` is the program with what stands before its arguments."""

    def __init__(self, nft: Sequence[str] = ("nft",)) -> None:
        self._nft = tuple(nft)
        self._asked: str | None = None  # what was wanted last
        self._standing: str | None = None  # how nft lists it; None while it is not so
        self._problems: list[str] = []
        self._look_at = 0.0
        self._doubt = False  # something has happened to the table
        self.events = _events()

    def touched(self) -> bool:
        """Read what has happened in nftables; whether it concerns our table, so that :meth:`hold` looks again."""
        messages = self.events.read() if self.events else []
        name = f"{NAME}\0".encode()
        touched = messages is None or any(name in message.body for message in messages)
        self._doubt |= touched
        return touched

    def hold(self, wanted: str, now: float) -> tuple[list[str], list[str]]:
        """Have the table be ``wanted`` (from :func:`ruleset`; empty: no table).

        Returns problems, and a sentence when somebody else had changed it. ``now`` is in seconds.
        """
        if wanted == self._asked and not self._doubt and (not wanted or now < self._look_at):
            return self._problems, []
        held = wanted == self._asked and self._standing is not None
        self._asked, self._doubt, self._look_at = wanted, False, now + LOOK
        listed = self._list()
        if held and listed == self._standing:
            return [], []
        self._problems = self._load(wanted, listed)
        self._standing = None if self._problems else self._list()
        return self._problems, [f"nft table {TABLE} was changed by another program; it is as it was again"] if held else []

    def _list(self) -> str:
        """The table as nft prints it; empty where there is none."""
        try:
            return self._run("-s", "list", "table", *TABLE.split()).stdout
        except OSError:
            return ""

    def _load(self, wanted: str, listed: str) -> list[str]:
        if not wanted and not listed:
            return []
        try:
            done = self._run("-f", "-", script=_ABSENT + wanted)
        except FileNotFoundError:
            reason = "nft is not installed; install nftables, or set ip and ipv6 adjust-mss disable"
        except OSError as error:
            reason = str(error.strerror)
        else:
            reason = (done.stderr.strip().splitlines() or ["nft failed"])[0] if done.returncode else ""
        return [f"the MSS of forwarded TCP connections is not adjusted ({reason})"] if reason else []

    def _run(self, *arguments: str, script: str = "") -> subprocess.CompletedProcess[str]:
        """Run nft. Raises OSError when it cannot be run or does not end."""
        try:
            return subprocess.run(
                [*self._nft, *arguments], input=script, capture_output=True, text=True, check=False, timeout=TIMEOUT
            )
        except subprocess.TimeoutExpired:
            raise TimeoutError(110, f"nft does not end within {TIMEOUT:g} s") from None


def _events() -> EventSocket | None:
    """Notifications about tables; None where the kernel gives none."""
    try:
        return EventSocket([_GROUP_NFTABLES], NETLINK_NETFILTER)
    except OSError:
        return None


def ruleset(plans: Iterable[Plan], devices: Mapping[str, DeviceState]) -> str:
    """The table that ``plans`` want, as a script for nft; empty when they want none. ``devices`` tell the MTUs."""
    chains, jumps = [], []
    for plan in plans:
        mtus = [mtu for i in plan.instances if i.device in devices and (mtu := devices[i.device].mtu)]
        values = zip((4, 6), plan.adjust_mss, strict=True)
        rules = [rule for family, value in values for rule in _rules(family, value, min(mtus, default=None))]
        if not plan.instances or not rules:
            continue
        chains.append(f" chain {plan.bundle} {{\n" + "".join(f"  {rule}\n" for rule in rules) + " }\n")
        # In a VRF the device that a packet came in by is the VRF's; its own is the slave device.
        ways = ("oifname", "meta sdifname" if plan.vrf else "iifname")
        jumps += [f'  {way} "{plan.bundle}p*" jump {plan.bundle}\n' for way in ways]
    if not chains:
        return ""
    head = "  type filter hook forward priority mangle\n  meta l4proto != tcp accept\n"
    head += "  tcp flags & (syn | rst) != syn accept\n"
    return f"table {TABLE} {{\n{''.join(chains)} chain forward {{\n{head}{''.join(jumps)} }}\n}}\n"


def _rules(family: int, value: str | int, mtu: int | None) -> list[str]:
    """Rules of one address family; each can but lower an MSS. ``mtu`` is that of the member devices, where known."""
    if value == NO_CLAMP:
        return []
    # The kernel's "rt mtu" is the MSS that fits the routes there and back; in a VRF it does not find the latter.
    sizes: list[str | int] = ["rt mtu"] if value == CLAMP_TO_PMTU else [value]
    if value == CLAMP_TO_PMTU and mtu:
        sizes.append(mtu - _HEADERS[family])
    return [f"meta nfproto ipv{family} tcp option maxseg size set {size}" for size in sizes]
