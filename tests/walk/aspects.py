"""What the configurations of a walk are made of: for each aspect its alternatives, and one of them at every moment.

An alternative is ``set`` lines below ``interfaces zerotier zt0`` without the ``set``; one that begins with ``zt1`` is of another
bundle. The first of each aspect is where a walk begins, and what half of all its changes go back to: else the two routers would soon
agree on nothing, and no path would be up. Some alternatives are refused, by themselves or beside others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

Choice = Mapping[str, int]  # aspect -> number of its alternative
Lines = tuple[str, ...]

INSTANCES = 4  # of the remote R2, and of R1 at first
TRANSIT, SUBNET_LENGTHS = ("10.14.0.0/27", "2001:db8:14::/120"), (29, 125)
BRIDGE, TAPPED, TAP = "br7", "mon0", "mon1"  # devices that R1 has besides
_BASE = ("transit site 1", "controller-free", "remote R2 site 2", "remote R2 prefix 10.0.55.2/32")
# Two bundles that share CPUs are spread by the order of their commits, so this one is not pinned.
_SECOND = (
    "zt1 instances 2", "zt1 network-id 8056c2e21c000003", "zt1 controller-free", "zt1 transit prefix 10.16.0.0/28",
    "zt1 transit site 1", "zt1 primary port 30000", "zt1 address 10.0.56.1/32", "zt1 cpu affinity none",
)  # fmt: skip

ASPECTS: dict[str, tuple[Lines, ...]] = {
    "instances": tuple((f"instances {count}",) for count in (4, 1, 2, 3, 6)),
    "transit": (
        (*(f"transit prefix {prefix}" for prefix in TRANSIT), *(f"transit subnet-length {length}" for length in SUBNET_LENGTHS)),
        ("transit prefix 10.14.0.0/27", "transit subnet-length 29"),
        ("transit prefix 10.14.0.0/26", "transit subnet-length 29", "transit prefix 2001:db8:14::/120", "transit subnet-length 125"),
        ("transit prefix 2001:db8:14::/120", "transit subnet-length 125"),
        ("transit prefix 10.15.0.0/27", "transit subnet-length 30"),
    ),
    "address": (
        ("address 10.0.55.1/32",),
        (),
        ("address 10.0.55.1/32", "address 2001:db8:55::1/128"),
        ("address 10.0.55.9/24",),
    ),
    "description": ((), ("description something",)),
    "mtu": ((), ("mtu 1280",), ("mtu 2800",), ("mtu auto",)),
    "prefixes": (
        (),
        ("remote R2 prefix 192.168.50.0/24",),
        ("remote R2 prefix 0.0.0.0/0",),
        ("remote R2 prefix 2001:db8:99::/48",),
        ("remote R2 prefix ::/0", "remote R2 prefix 0.0.0.0/0"),
    ),
    "remote off": ((), ("remote R2 disable",)),
    "third": (
        (),
        ("remote R3 site 3", "remote R3 prefix 192.168.60.0/24"),
        ("remote R3 site 5", "remote R3 prefix 192.168.61.0/24", "remote R3 prefix 2001:db8:61::/48"),
    ),
    "weights": ((), ("balance weights auto",), ("instance 1 weight 5",), ("instance 2 weight 7", "balance weights auto")),
    "backup": ((), ("instance 2 backup",), ("instance 4 backup",)),
    "hash": ((), ("balance hash-policy layer3",), ("balance hash-policy inner",), ("balance hash-policy layer4",)),
    "buckets": (
        (),
        ("balance resilient buckets 64",),
        ("balance resilient buckets 512", "balance resilient idle-timer 3"),
        ("balance resilient idle-timer 0",),
    ),
    "all paths down": ((), ("balance all-paths-down keep",), ("balance all-paths-down withdraw",)),
    "health": ((), ("health-check disable",), ("health-check interval 100", "health-check multiplier 5")),
    "cpu": ((), ("cpu affinity none",), ("cpu affinity 0",), ("cpu affinity 0-1",), ("instance 1 cpu 1",)),
    "port": ((), ("primary port 21000",), ("instance 2 port 22000",), ("primary port 9994",)),
    "instance off": ((), ("instance 1 disable",), ("instance 2 disable",)),
    "underlay": (
        (),
        ("listen-address 198.51.100.1",),
        ("listen-address 192.0.2.1",),
        ("instance 1 listen-address 192.0.2.1",),
        ("instance 1 source-interface eth0",),
        ("instance 2 source-interface eth0", "instance 2 gateway 198.51.100.2"),
    ),
    "avoided": (
        (),
        (f"interface-blacklist {TAPPED}",),
        ("interface-blacklist eth9",),
        ("network-config 198.51.100.0/24 blacklist",),
        ("network-config 203.0.113.0/24 trusted-path 77",),  # of the underlay, R2 would have to have it too
        ("network-config 203.0.113.0/24 mtu 1400",),
    ),
    "offload": ((), ("offload disable tso",), ("offload disable shortcut", "offload disable udp-gro")),
    "ip": (
        (),
        ("ip adjust-mss clamp-mss-to-pmtu",),
        ("ip adjust-mss 1200",),
        ("ip disable-forwarding",),
        ("ip source-validation strict",),
        ("ip source-validation loose",),
    ),
    "ipv6": ((), ("ipv6 adjust-mss 1220",), ("ipv6 disable-forwarding",), ("ipv6 source-validation strict",)),
    "mirror": (
        (),
        (f"mirror ingress {TAPPED}",),
        (f"mirror egress {TAPPED}", f"mirror ingress {TAP}"),
        (f"redirect {TAPPED}",),
    ),
    "disable": ((), ("disable",)),
    "network": (
        ("network-id 8056c2e21c000001",),
        ("network-id 8056c2e21c000001", "instance 2 network-id 8056c2e21c000002"),
        ("network-id 8056c2e21c000009",),
    ),
    "network settings": (
        (),
        ("network 8056c2e21c000001 address 172.20.0.1/24",),
        (f"network 8056c2e21c000001 bridge {BRIDGE}",),
    ),
    "engine": (
        (),
        ("low-bandwidth-mode",),
        ("instance 1 low-bandwidth-mode",),
        ("peer-config 1122334455 blacklist 198.51.100.0/24",),
    ),
    "second bundle": ((), _SECOND),
}  # fmt: skip
_REFUSED = ("engine", "network settings")  # aspects of which a bundle that runs mostly has the first alternative alone
# Shares of the steps; little of a disabled bundle is there to be seen.
_REFUSALS, _RETURNS, _RETURNS_FROM_DISABLED = 0.2, 0.1, 0.5
BEGIN: Choice = dict.fromkeys(ASPECTS, 0)


def configuration(choice: Choice) -> Lines:
    """The lines of a choice, whole paths, without those that tell who R2 is."""
    lines = (*_BASE, *(line for aspect, number in choice.items() for line in ASPECTS[aspect][number]))
    return tuple(f"interfaces zerotier {line if line.startswith('zt1 ') else f'zt0 {line}'}" for line in lines)


def drawn(choice: Choice, random: Random) -> Choice:
    """Another choice. It differs in one to five aspects, at times in one more that is refused; or it is the first one again."""
    while True:
        aspects: Sequence[str] = random.sample(list(ASPECTS), random.choice((1, 2, 3, 5)))
        after = {**choice, **{aspect: random.choice((0, random.randrange(len(ASPECTS[aspect])))) for aspect in aspects}}
        if random.random() < _REFUSALS:
            aspect = random.choice(_REFUSED)
            after[aspect] = random.randrange(1, len(ASPECTS[aspect]))
        if random.random() < (_RETURNS_FROM_DISABLED if choice["disable"] else _RETURNS):
            after = dict(BEGIN)
        if after != choice:
            return after


def typed(before: Sequence[str], after: Sequence[str]) -> str:
    """What a user types to go from one configuration to another.

    To be rid of a line he deletes the topmost node below which nothing stays.
    """
    gone = dict.fromkeys(_topmost(line, after) for line in before if line not in after)
    come = dict.fromkeys(line for line in after if line not in before)
    return "".join([*(f"delete {line}\n" for line in gone), *(f"set {line}\n" for line in come)])


def _topmost(line: str, staying: Sequence[str]) -> str:
    words = line.split()
    nodes = (" ".join(words[:count]) for count in range(1, len(words) + 1))
    return next(node for node in nodes if not any(f"{other} ".startswith(f"{node} ") for other in staying))
