"""What op mode tells, as plain data and as text; the scripts in src/op_mode only print it."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any

from zerotier_multi.bundle import Endpoint
from zerotier_multi.facts import published_plans
from zerotier_multi.homes import own_identity
from zerotier_multi.plan import InstancePlan, Plan
from zerotier_multi.ztapi import ApiError, ZeroTierApi


class ShowError(RuntimeError):
    """Nothing to show; the text is one sentence."""


def plan_of(bundle: str) -> Plan:
    """The plan in force. Raises :class:`ShowError` for a bundle that is not configured."""
    for plan in published_plans():
        if plan.bundle == bundle:
            return plan
    raise ShowError(f"interfaces zerotier {bundle} is not configured; configured are: {_names()}")


def _names() -> str:
    return ", ".join(plan.bundle for plan in published_plans()) or "none"


def identities(plan: Plan) -> list[dict[str, Any]]:
    """Public identity and underlay endpoints of every instance that has one, in the order of instances.

    Raises :class:`ShowError` for a user who may not read the homes.
    """
    found = []
    for instance in plan.instances:
        try:
            identity = own_identity(Path(instance.home))
        except PermissionError:
            raise ShowError(f"the identity of {plan.bundle}/{instance.number} can be read by root only; use sudo") from None
        if identity is not None:
            found.append(
                {"instance": instance.number, "identity": str(identity), "endpoints": endpoints(instance)},
            )
    return found


def endpoints(instance: InstancePlan) -> list[str]:
    """Addresses and ports that an instance listens on; empty while it does not answer."""
    try:
        listening = ZeroTierApi(Path(instance.home), instance.port).status()["config"]["settings"]["listeningOn"]
    except (ApiError, KeyError, TypeError):
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


def identity_commands(plan: Plan, name: str) -> str:
    """The ``set`` lines that make ``name``, this router, known to the other one."""
    lines = []
    for entry in identities(plan):
        base = f"set interfaces zerotier {plan.bundle} remote {name} instance {entry['instance']}"
        lines.append(f"{base} identity {entry['identity']}")
        lines += [f"{base} endpoint {endpoint}" for endpoint in entry["endpoints"]]
    return "".join(f"{line}\n" for line in lines)
