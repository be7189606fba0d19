"""A table of nftables that is ours: kept as it is wanted, whatever others do to it.

There are two: what stands in that of all packets is said by :mod:`mss`, :mod:`spoofed`, :mod:`solicited`, :mod:`unsealed` and
:mod:`forwarding`, in that of devices by :mod:`mirror`.
"""

from __future__ import annotations

from collections.abc import Sequence

from zerotier_multi.netlink.sockets import NETLINK_NETFILTER, EventSocket
from zerotier_multi.pathd.nftables.program import run_nft

NAME = "zerotier_multi"
FAMILY = "inet"
LOOK = 60.0  # seconds after which nft is tried again where it has failed, and the table is read again where nothing tells of it
_GROUP_NFTABLES = 7  # NFNLGRP_NFTABLES (linux/netfilter/nfnetlink.h)

MISSING = "the MSS of forwarded TCP connections is not adjusted, and packets with forged source addresses are accepted"


class Table:
    """Keeps the table of one family. ``nft`` is the program with what stands before its arguments.

    ``missing`` says what is not so without the table, in the sentence of a problem.
    """

    def __init__(self, nft: Sequence[str] = ("nft",), family: str = FAMILY, missing: str = MISSING) -> None:
        self._nft, self._missing = tuple(nft), missing
        self._name = f"{family} {NAME}"
        self._asked: str | None = None  # what was wanted last
        self._standing: str | None = None  # how nft lists it; None while it is not so
        self._problems: list[str] = []
        self._look_at = 0.0
        self._doubt = False  # something has happened to the table
        self._left = False  # what a daemon before this one has made stands on
        self.events = _events()

    def touched(self) -> bool:
        """Read what has happened in nftables; whether it concerns our table, so that :meth:`hold` looks again."""
        name = f"{NAME}\0".encode()
        messages = self.events.read(lambda message: name in message.body) if self.events else []
        touched = messages is None or bool(messages)
        self._doubt |= touched
        return touched

    def hold(self, wanted: str, now: float, *, keep: bool = False) -> tuple[list[str], list[str]]:
        """Have the table be ``wanted`` (from :func:`script`; empty: no table).

        With ``keep`` one that a daemon before this one has made stays as it is: more may be in it than is known here.
        Returns problems, and a sentence when somebody else had changed it. ``now`` is in seconds.
        """
        self._left = keep and (self._left or (self._asked is None and self._list() != ""))
        if self._left:
            return [], []
        if wanted == self._asked and not self._doubt and (not wanted or now < self._look_at):
            return self._problems, []
        held = wanted == self._asked and self._standing is not None
        self._asked, self._doubt, self._look_at = wanted, False, now + LOOK
        listed = self._list()
        if held and listed == self._standing:
            return [], []
        self._problems = self._load(wanted, listed)
        self._standing = None if self._problems else self._list()
        return self._problems, [f"nft table {self._name} was changed by another program and has been restored"] if held else []

    def _list(self) -> str:
        """The table as nft prints it, without what packets have entered into its sets; empty where there is none."""
        try:
            return run_nft(self._nft, "-s", "-t", "list", "table", *self._name.split()).stdout
        except OSError:
            return ""

    def _load(self, wanted: str, listed: str) -> list[str]:
        if not wanted and not listed:
            return []
        try:
            done = run_nft(self._nft, "-f", "-", script=f"table {self._name}\ndelete table {self._name}\n{wanted}")
        except FileNotFoundError:
            reason = "nft is not installed; install nftables"
        except OSError as error:
            reason = str(error.strerror)
        else:
            reason = (done.stderr.strip().splitlines() or ["nft failed"])[0] if done.returncode else ""
        return [f"{self._missing} ({reason})"] if reason else []


def _events() -> EventSocket | None:
    """Notifications about tables; None where the kernel gives none."""
    try:
        return EventSocket([_GROUP_NFTABLES], NETLINK_NETFILTER)
    except OSError:
        return None


def script(*chains: str, family: str = FAMILY) -> str:
    """The table with these chains as a script for nft; empty where there is no chain."""
    return f"table {family} {NAME} {{\n{''.join(chains)}}}\n" if any(chains) else ""
