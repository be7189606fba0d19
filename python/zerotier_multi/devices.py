"""Which devices are ours, and what another program's is called; pure.

A name says nothing: a zerotier-one with a ``devicemap``, a container or an administrator may have given a device the name of a
bundle or of a member device before the bundle was there.
"""

from __future__ import annotations

from zerotier_multi import names
from zerotier_multi.netlink.links import Link

OWN_KINDS = ("dummy", "bridge")  # of the devices ztN; the second is without ports, where the kernel has no dummy driver
TAP = "tun"  # kind of the device of an instance; the kernel calls TUN devices so too
_WORDS = {TAP: "a TUN or TAP device", "bridge": "a bridge", None: "a network interface"}


def made_by_us(link: Link) -> bool:
    """Whether zerotier-pathd has made a device: every one of its own gets its link group together with its name."""
    return link.group == names.DEVICE_GROUP and link.kind in OWN_KINDS


def may_be_of_instance(link: Link) -> bool:
    """Whether a device is of the kind that an instance makes."""
    return link.kind == TAP


def what(link: Link) -> str:
    """What a device is, for a sentence."""
    return _WORDS.get(link.kind, f"a device of type {link.kind}")
