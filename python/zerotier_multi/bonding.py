"""Bonding of an instance's underlay links by zerotier-one: what a policy needs, and what contradicts itself; pure.

Source of what zerotier-one takes: ``OneService::applyLocalConfig`` of 1.14.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from zerotier_multi.errors import Problem
from zerotier_multi.settings import Given, put

POLICIES = ("none", "active-backup", "broadcast", "balance-rr", "balance-xor", "balance-aware")

# zerotier-one 1.14 reads a link quality that has all eight alone. Loss and errors are not to count, so nothing is too much
# of them: one that the configuration cannot set must not put a link out.
_QUALITY = {"lat_max": 500, "pdv_max": 100, "plr_max": 1.0, "per_max": 1.0, "plr_weight": 0.0, "per_weight": 0.0}


def complete_policies(policies: Mapping[str, dict[str, Any]]) -> None:
    """Add to the policies of a ``local.conf`` what zerotier-one wants beside what is configured."""
    for policy in policies.values():
        if quality := policy.get("linkQuality"):
            latency = quality.get("lat_weight", 1.0 - quality.get("pdv_weight", 0.5))
            policy["linkQuality"] = _QUALITY | quality | {"lat_weight": latency, "pdv_weight": round(1.0 - latency, 4)}
        if method := policy.get("linkSelectMethod"):
            policy["activeReselect"] = method  # its name before 1.16


def problems(path: str, settings: Iterable[Given]) -> Iterable[Problem]:
    """What is wrong with the policies of a bundle, whose CLI path is ``path``."""
    conf: dict[str, Any] = {}
    settings = list(settings)
    for given in settings:
        put(conf, given.key, given.value)
    policies = conf.get("settings", {}).get("policies", {})
    for name, policy in policies.items():
        yield from _policy(f"{path} custom-policy {name}", name, policy)
    known = {*POLICIES, *policies}
    used = [given for given in settings if given.path.endswith("bonding-policy")]
    for given in used:
        if given.value not in known:
            yield Problem(
                f"{path} {given.path} {given.value}",
                "is neither a built-in nor a configured policy; set a custom-policy of this name or one of " + ", ".join(POLICIES),
            )
    relay = next((given for given in settings if given.path == "force-tcp-relay"), None)
    if relay and any(given.value != "none" for given in used):
        yield Problem(f"{path} force-tcp-relay", "conflicts with bonding, which needs UDP; delete one of them")


def _policy(where: str, name: str, policy: Mapping[str, Any]) -> Iterable[Problem]:
    if name in POLICIES:
        yield Problem(where, "has the name of a built-in policy; choose another name")
    if "basePolicy" not in policy:
        yield Problem(f"{where} base-policy", "is missing; set the policy that this one is based on")
    quality = policy.get("linkQuality", {})
    weights = [quality[key] for key in ("lat_weight", "pdv_weight") if key in quality]
    if len(weights) == 2 and abs(sum(weights) - 1.0) > 0.001:
        yield Problem(f"{where} link-quality", f"has weights with the sum {sum(weights):g}; make it 1, or set only one of them")
    links = policy.get("links", {})
    for link, given in links.items():
        successor = given.get("failoverTo")
        if successor is None:
            continue
        at = f"{where} links {link} failover-to {successor}"
        if given.get("mode") != "primary":
            yield Problem(at, "is for primary links; set mode primary or delete it")
        if successor == link or successor not in links:
            yield Problem(at, "is not another link of this policy; set one of them")
