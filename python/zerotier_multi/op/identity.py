"""The lines that make this router known to another one, as with WireGuard's public keys."""

from __future__ import annotations

import ipaddress
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from zerotier_multi.bundle import Endpoint
from zerotier_multi.homes import own_identity
from zerotier_multi.op.errors import NotAllowed, Unavailable
from zerotier_multi.plan import InstancePlan, Plan
from zerotier_multi.ztapi import ApiError, ZeroTierApi


def identities(plan: Plan) -> list[dict[str, Any]]:
    """Public identity and underlay endpoints of every instance that has one, in the order of instances.

    Raises :class:`NotAllowed` for a user who may not read the homes.
    """
    with ThreadPoolExecutor(max_workers=max(1, len(plan.instances))) as pool:
        listening = list(pool.map(endpoints, plan.instances))
    found = []
    for instance, known in zip(plan.instances, listening, strict=True):
        try:
            identity = own_identity(Path(instance.home))
        except PermissionError:
            raise NotAllowed(
                f"the identity of {plan.bundle}/{instance.number} can be read by root only; use sudo"
            ) from None
        except (OSError, ValueError):
            raise Unavailable(
                f"the identity of {plan.bundle}/{instance.number} is corrupt; to get a new one: "
                f"reset zerotier {plan.bundle} identity instance {instance.number}"
            ) from None
        if identity is not None:
            found.append({"instance": instance.number, "identity": str(identity), "endpoints": known})
    return found


def endpoints(instance: InstancePlan) -> list[str]:
    """Addresses and ports that an instance listens on; empty while it does not answer."""
    try:
        listening = ZeroTierApi(Path(instance.home), instance.port).status()["config"]["settings"]["listeningOn"]
    except (ApiError, KeyError, TypeError, ValueError):
        return []
    return sorted({_endpoint(item) for item in listening} - {""})


def _endpoint(text: str) -> str:
    """``198.51.100.1/9993`` as the CLI writes it; what is no address of its own is left out."""
    host, _slash, port = str(text).partition("/")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return ""
    return "" if address.is_link_local or address.is_loopback else str(Endpoint(address, int(port)))


def identity_data(plan: Plan) -> dict[str, Any]:
    """The public identities as data."""
    return {"schema": 1, "bundle": plan.bundle, "instances": identities(plan)}


def identity_commands(plan: Plan, name: str) -> str:
    """The ``set`` lines that make ``name``, this router, known to the other one."""
    lines = []
    for entry in identities(plan):
        base = f"set interfaces zerotier {plan.bundle} remote {name} instance {entry['instance']}"
        lines.append(f"{base} identity {entry['identity']}")
        lines += [f"{base} endpoint {endpoint}" for endpoint in entry["endpoints"]]
    return "\n".join(lines) or f"No instance of {plan.bundle} has an identity yet."
