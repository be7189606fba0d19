"""The lines that make this router known to another one, as with WireGuard's public keys."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from zerotier_multi.homes import own_identity
from zerotier_multi.op.errors import NotAllowed, Unavailable
from zerotier_multi.plan import InstancePlan, Plan
from zerotier_multi.ports import udp_places
from zerotier_multi.netlink.rtnl import Rtnl
from zerotier_multi.transit import IPInterface
from zerotier_multi.underlay import Local, verdicts
from zerotier_multi.values import Endpoint
from zerotier_multi.ztapi import ApiError, ZeroTierApi


def identities(plan: Plan, plans: Iterable[Plan], everything: bool) -> list[dict[str, Any]]:
    """Public identity and underlay endpoints of every instance that has one, in the order of instances.

    ``plans`` are all that are in force; ``everything`` asks for private addresses and those of LANs too. Raises
    :class:`NotAllowed` for a user who may not read the homes.
    """
    owned = [(instance, identity) for instance in plan.instances if (identity := _identity(plan, instance))]
    with ThreadPoolExecutor(max_workers=max(1, len(owned))) as pool:
        answers = list(pool.map(listening, (instance for instance, _identity in owned)))
    addresses, uplinks = _read_addresses()
    known = list(plans)
    found = []
    for (instance, identity), listens in zip(owned, answers, strict=True):
        by_address = {local.interface.ip: (local, ports) for local, ports in _locals(listens, addresses)}
        looked = verdicts([local for local, _ports in by_address.values()], uplinks, known)
        told = [v for v in looked if v.reason is None or (everything and v.on_request)]
        endpoints = [Endpoint(v.local.interface.ip, port) for v in told for port in by_address[v.local.interface.ip][1]]
        found.append(
            {
                "instance": instance.number,
                "identity": identity,
                "endpoints": [str(endpoint) for endpoint in endpoints],
                "answers": bool(listens),
                "left_out": [
                    {
                        "address": str(v.local.interface.ip),
                        "interface": v.local.device,
                        "reason": v.reason,
                        "on_request": v.on_request,
                    }
                    for v in looked
                    if v not in told
                ],
            }
        )
    return found


def _identity(plan: Plan, instance: InstancePlan) -> str | None:
    try:
        identity = own_identity(Path(instance.home))
    except PermissionError:
        raise NotAllowed(f"the identity of {plan.bundle}/{instance.number} can be read only by root; use sudo") from None
    except (OSError, ValueError):
        raise Unavailable(
            f"the identity of {plan.bundle}/{instance.number} is corrupt; to create a new one: "
            f"reset zerotier {plan.bundle} identity instance {instance.number}"
        ) from None
    return None if identity is None else str(identity)


def listening(instance: InstancePlan) -> list[tuple[str, int]]:
    """Addresses and ports that an instance listens on; empty while it does not run.

    The kernel knows them too, for one whose API others keep from answering.
    """
    try:
        found = ZeroTierApi(Path(instance.home), instance.port).status()["config"]["settings"]["listeningOn"]
        pairs = [str(item).partition("/") for item in found]
        return sorted({(host, int(port)) for host, _slash, port in pairs})
    except (ApiError, KeyError, TypeError, ValueError):
        return udp_places(instance.port)


def _read_addresses() -> tuple[Mapping[str, Local], frozenset[str]]:
    """All addresses of this router with their devices, and the devices with a default route that is not ours."""
    try:
        with Rtnl() as rtnl:
            names = {link.index: name for name, link in rtnl.links().items()}
            uplinks = frozenset(names[index] for _family, index in rtnl.uplinks() if index in names)
            passing, found = rtnl.passing_addresses(), rtnl.local_addresses()
    except OSError as error:
        raise Unavailable(f"the addresses of this router cannot be read ({error.strerror})") from None
    locals_ = [Local(names.get(a.index, ""), ipaddress.ip_interface(a.interface), passing.get(a, "")) for a in found]
    return {str(local.interface.ip): local for local in locals_}, uplinks


def _locals(listens: Sequence[tuple[str, int]], addresses: Mapping[str, Local]) -> Iterable[tuple[Local, list[int]]]:
    """Addresses that an instance listens on and that are known beyond their link, with the ports."""
    ports: dict[IPInterface, list[int]] = {}
    for host, port in listens:
        try:
            interface = ipaddress.ip_interface(host)
        except ValueError:
            continue
        if not (interface.is_link_local or interface.is_loopback or interface.is_unspecified):
            ports.setdefault(interface, []).append(port)
    for interface, own in ports.items():
        yield addresses.get(str(interface.ip), Local("", interface)), own


def identity_data(plan: Plan, plans: Iterable[Plan], everything: bool = False) -> dict[str, Any]:
    """The public identities as data."""
    return {"schema": 1, "bundle": plan.bundle, "instances": identities(plan, plans, everything)}


def identity_commands(data: Mapping[str, Any], name: str) -> str:
    """The ``set`` lines that make ``name``, this router, known to the other one.

    Lines that begin with # say what was left out; conf mode leaves them alone, so that all of it can be pasted.
    """
    bundle, lines = data["bundle"], []
    for entry in data["instances"]:
        base = f"set interfaces zerotier {bundle} remote {name} instance {entry['instance']}"
        lines.append(f"{base} identity {entry['identity']}")
        lines += [f"{base} endpoint {endpoint}" for endpoint in entry["endpoints"]]
    if not lines:
        return f"No instance of {bundle} has an identity yet."
    return "\n".join([*lines, *remarks(data)])


def remarks(data: Mapping[str, Any], word: str = "identity") -> Iterable[str]:
    """What is missing, as lines that conf mode leaves alone; ``word`` is the command that prints them."""
    silent = [str(entry["instance"]) for entry in data["instances"] if not entry["answers"]]
    if silent:
        yield f"# Instance {', '.join(silent)} of {data['bundle']} does not answer yet, so its endpoints are missing"
    left_out = {(item["address"], item["reason"], item["on_request"]) for entry in data["instances"] for item in entry["left_out"]}
    for address, reason, _on_request in sorted(left_out):
        yield f"# Left out: {address} ({reason})"
    if any(on_request for _address, _reason, on_request in left_out):
        yield f"# To include them: show zerotier {data['bundle']} {word} all"
