"""``mirror`` and ``redirect``: what a configuration says of copies of a bundle's packets, and whether it can be so; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from zerotier_multi import names
from zerotier_multi.bundle import Bundle
from zerotier_multi.errors import Problem

INPUT = "ifb"  # how the names of input devices begin, which give packets back to the router


def problems(bundle: Bundle) -> Iterable[Problem]:
    """What is wrong whatever the router is. Both at once are refused by VyOS too (python/vyos/configverify.py)."""
    for path, device in _targets(bundle):
        if names.is_our_device(device):
            yield Problem(
                f"{bundle.path} {path} {device}", "is a device of a bundle and cannot take copies; set an interface such as eth3"
            )
    if bundle.redirect and (bundle.mirror_ingress or bundle.mirror_egress):
        yield Problem(f"{bundle.path} redirect {bundle.redirect}", "conflicts with mirror; delete one of them")


def warnings(bundle: Bundle, devices: Collection[str]) -> list[str]:
    """What a user should know although the commit is good: at boot an interface may come later than the configuration."""
    found = [
        f"{bundle.path} {path} {device}: the interface does not exist yet; it gets packets when it is there"
        for path, device in _targets(bundle)
        if device not in devices
    ]
    if bundle.redirect and not bundle.redirect.startswith(INPUT) and not bundle.health_disabled:
        found.append(
            f"{bundle.path} redirect {bundle.redirect}: it takes the health checks too, so all paths will be down; "
            f"redirect to an input interface such as ifb0"
        )
    return found


def _targets(bundle: Bundle) -> list[tuple[str, str]]:
    """(path below the bundle, device) of what is configured."""
    given = (("mirror ingress", bundle.mirror_ingress), ("mirror egress", bundle.mirror_egress), ("redirect", bundle.redirect))
    return [(path, device) for path, device in given if device]
