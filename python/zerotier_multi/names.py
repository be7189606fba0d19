"""Names, numbers and places that belong to the product on a box.

Everything that another program on the box can see and that must be recognised as ours is named here once.
"""

from __future__ import annotations

import re
from pathlib import Path

MAX_BUNDLE = 255  # 8 bits of a next-hop id
MAX_INSTANCES = 32  # 6 bits of a next-hop id, 0 being the group
MAX_SITE = 510  # 9 bits of a next-hop id; a /23 transit subnet

RUN_DIR = Path("/run/zerotier-multi")
STATUS_SOCKET = RUN_DIR / "pathd.sock"  # everybody's, for the status alone
CONTROL_SOCKET = RUN_DIR / "pathd" / "control.sock"  # root's; its directory is too
STATE_FILE = RUN_DIR / "pathd" / "state.json"
METRICS_FILE = RUN_DIR / "metrics.prom"
INSTANCE_RUN_ROOT = RUN_DIR / "instances"  # a directory for each instance; RuntimeDirectory= in zerotier-multi@.service
HOME_ROOT = Path("/config/zerotier-multi")
HOOK_DIR = HOME_ROOT / "hooks"
UNIT_DROPIN_ROOT = Path("/run/systemd/system")
DROPIN_NAME = "10-plan.conf"
PATHD_UNIT = "zerotier-pathd.service"

# Kernel route protocol number of our routes and next hops ('z'); unused by iproute2's rt_protos and FRR.
RT_PROTO = 122
# Next-hop ids 0x7a000000-0x7affffff are ours. They are above what zebra takes for the kernel's (FRR 8.4.4 leaves them
# alone, lower ones it learns): zebra gives its own next hops the ids that follow the highest it has learned, so
# with a lower range it would soon stand among ours.
NEXTHOP_ID_BASE = 0x7A000000
NEXTHOP_ID_MASK = 0xFF000000

REMOTE_RE = re.compile(r"[a-zA-Z0-9][-_.a-zA-Z0-9]{0,62}")  # a name of another router, as in the definition
BUNDLE_RE = re.compile(r"zt(0|[1-9][0-9]{0,2})")
_DEVICE_RE = re.compile(rf"({BUNDLE_RE.pattern})(p[1-9][0-9]?|n[0-9a-f]{{8}})?")


def bundle_number(bundle: str) -> int:
    """The N of ``ztN``. Raises ValueError for a name that is no bundle's (``zt256``, ``zt01``, ``eth0``)."""
    match = BUNDLE_RE.fullmatch(bundle)
    if not match or int(match[1]) > MAX_BUNDLE:
        raise ValueError(f"{bundle}: not a bundle name, use zt0 to zt{MAX_BUNDLE}")
    return int(match[1])


def member_device(bundle: str, instance: int) -> str:
    """Name of the TAP of an instance, e.g. ``zt0p2``; it begins with ``zt`` so that no instance binds to it."""
    return f"{bundle}p{instance}"


def network_device(bundle: str, network: str) -> str:
    """Name of the TAP of a further network, e.g. ``zt0n1c000002``: the end of its id, because names have 15 characters.

    The number of a network at its controller is in the last six digits; the two before are the controller's.
    """
    return f"{bundle}n{network[-8:]}"


def is_our_device(device: str) -> bool:
    """Whether a name is one that a bundle or a member device may have."""
    return bool(_DEVICE_RE.fullmatch(device))


def unit_name(bundle: str, instance: int) -> str:
    """systemd unit of an instance."""
    return f"zerotier-multi@{bundle}-{instance}.service"


def plan_file(bundle: str) -> Path:
    """Where the plan of a bundle is published to the daemon and to op mode."""
    return RUN_DIR / f"{bundle}.json"


def turn_file() -> Path:
    """Whose lock says who may change the instances just now; root's."""
    return RUN_DIR / "commit.lock"


def controller_key(bundle: str) -> Path:
    """Where the API key of a bundle's controller is, for root alone."""
    return RUN_DIR / "pathd" / "controller" / bundle


def home(bundle: str, instance: int) -> Path:
    """Home of an instance; identities in it survive everything but an explicit reset."""
    return HOME_ROOT / bundle / str(instance)


def instance_run_dir(bundle: str, instance: int) -> Path:
    """What systemd makes for a running instance, for root alone."""
    return INSTANCE_RUN_ROOT / f"{bundle}-{instance}"


def nexthop_id(bundle: str, family: int, site: int, instance: int) -> int:
    """Id of the next hop over ``instance`` to ``site``, or of the group when ``instance`` is 0.

    ``family`` is 4 or 6. The id tells by itself what it is: bundle 8 bits, IPv6 1 bit, site 9 bits, instance
    6 bits. Raises ValueError outside these widths.
    """
    if not (0 <= instance <= MAX_INSTANCES and 1 <= site <= MAX_SITE and family in (4, 6)):
        raise ValueError(f"no next-hop id for family {family}, site {site}, instance {instance}")
    return NEXTHOP_ID_BASE | bundle_number(bundle) << 16 | (family == 6) << 15 | site << 6 | instance


def is_our_nexthop_id(number: int) -> bool:
    """Whether a next-hop id lies in our range."""
    return number & NEXTHOP_ID_MASK == NEXTHOP_ID_BASE


def first_group_id(number: int) -> int:
    """The id that a plan gives the group, out of any id that the group may have."""
    return number & ~0x3F


def route_metric(prefix: str) -> int:
    """Metric of a route over a group: the one that the kernel prefers to all others, 0 for IPv4 and 1 for IPv6.

    IPv6 without one means 1024, behind the 20 of FRR's routes, so that a backup of a higher distance would win.
    """
    return 1 if ":" in prefix else 0


def bundle_of_nexthop(number: int) -> str | None:
    """The bundle that a next-hop id belongs to; None for an id outside our range, as 0 of a route without a group."""
    return f"zt{number >> 16 & 0xFF}" if is_our_nexthop_id(number) else None


def default_primary_port(bundle: str) -> int:
    """UDP port of instance 1 unless configured: 9993 for zt0, 32 more for each next bundle."""
    return 9993 + MAX_INSTANCES * bundle_number(bundle)


# Rules of the instances that are kept to an uplink: behind VRFs (1000) and most that users make, before the main table.
RULE_PRIORITY = 31354  # and the next one
# Of a full tunnel: its table (no bundle has an instance 0, so it is no uplink's), and its rules behind those of uplinks.
FULL_TUNNEL_TABLE = 0x7A000000
FULL_TUNNEL_PRIORITY = 31360  # and the next four
REFUSING_METRIC = 4278198272  # of a route that refuses what no other takes, the same that VRFs use


def uplink_table(bundle: str, instance: int, device: int) -> int:
    """Routing table of an instance for one of its uplinks, counted from 0; one has seldom more than one.

    The number tells by itself what it is: bundle 8 bits, instance 8 bits, uplink 8 bits.
    """
    if not (1 <= instance <= MAX_INSTANCES and 0 <= device <= 255):
        raise ValueError(f"no table for instance {instance}, uplink {device}")
    return 0x7A000000 | bundle_number(bundle) << 16 | instance << 8 | device


# Metric of the route over the device ztN that stands for a prefix in FRR: the worst of those that zebra gives the
# distance 0 of a kernel route (zebra reads a distance out of the first byte of a kernel metric).
SEEN_METRIC = 0xFFFFFF
DEVICE_GROUP = 122  # link group of the devices ztN that we made, and so may delete
# Added to a group's id, where that is taken by another program or by a group of ours that is to be replaced by one of
# another size: what the 6 bits of an instance leave.
GROUP_ALTERNATE = MAX_INSTANCES + 1
GROUP_OFFSETS = (0, *range(GROUP_ALTERNATE, 64))
