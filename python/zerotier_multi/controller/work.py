"""What is to be done at a controller for the instances of a bundle, and doing it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_interface
from typing import Any

from zerotier_multi.controller.client import ControllerError, Refused
from zerotier_multi.controller.dialects import Dialect, Member, Request
from zerotier_multi.plan import Plan

Ask = Callable[[Request], Any]

WAITING = "waits until the node has asked for the network"
NO_LIST = "has no members of this network at its url, which must end with /api/v1 or /api/v1/org/ID where it has a path"
REJECTED = "rejects the API key, or the key has no right to that network"
NO_RIGHT = (401, 403)


@dataclass(frozen=True)
class Task:
    """One member of one network, as it shall be."""

    device: str
    network: str
    node: str
    want: Member


@dataclass(frozen=True)
class Done:
    """What has come of it; ``fault`` None: it is as it shall be. ``changed``: it was not before.

    ``refused``: the controller has not taken the key for it.
    """

    device: str
    network: str
    node: str
    fault: str | None = None
    changed: bool = False
    refused: bool = False


def tasks(plan: Plan, nodes: dict[int, str], router: str) -> Iterable[Task]:
    """What shall be; ``nodes`` are the node ids of the instances, ``router`` is this router's name."""
    if plan.controller is None:
        return
    for instance in plan.instances:
        for network in instance.joined:
            transit = instance.transit if network.device == instance.device else ()
            addresses = frozenset(str(ip_interface(a).ip) for a in (*transit, *network.addresses))
            # Where the controller gives the addresses and none is configured, it keeps those that it has given.
            assigns = plan.controller.assign_addresses and (addresses or not network.allow_managed)
            want = Member(f"{router} {network.device}", plan.controller.authorize, addresses if assigns else None, automatic=False)
            if instance.number in nodes:
                yield Task(network.device, network.network_id, nodes[instance.number], want)


def settle(task: Task, dialect: Dialect, ask: Ask) -> Done:
    """Bring one member to what it shall be. A refusal that concerns this member alone is in the result.

    Raises :class:`ControllerError` for what concerns the controller as a whole.
    """
    try:
        have = _look(task, dialect, ask)
        if have is None and not dialect.creates:
            return Done(task.device, task.network, task.node, WAITING)
        todo = dialect.change(task.network, task.node, have or Member(addresses=frozenset()), task.want)
        for request in todo:
            ask(request)
    except Refused as refused:
        if refused.status in NO_RIGHT:  # of one network or of the key: ZTNET says 401 of both
            return Done(task.device, task.network, task.node, "rejects the API key for this network", refused=True)
        if refused.status == 429:
            raise ControllerError("wants fewer requests") from None
        if refused.status == 404:
            why = NO_LIST if dialect.lists else f"has no network {task.network}" if dialect.creates else WAITING
            return Done(task.device, task.network, task.node, why)
        return Done(task.device, task.network, task.node, str(refused))
    return Done(task.device, task.network, task.node, changed=bool(todo))


def once_each(ask: Ask) -> Ask:
    """Questions whose answer is known are not asked again: ZTNET lists all members, and takes 50 requests a minute."""
    known: dict[str, Any] = {}

    def asked(request: Request) -> Any:
        if request.method != "GET":
            return ask(request)
        if request.path not in known:
            try:
                known[request.path] = ask(request)
            except Refused as refused:
                known[request.path] = refused
        if isinstance(known[request.path], Refused):
            raise known[request.path]
        return known[request.path]

    return asked


def whole_fault(done: Sequence[Done]) -> str | None:
    """What is wrong with the controller as a whole, by what has come of its members: a key that is good for none of them."""
    return REJECTED if done and all(one.refused for one in done) else None


def _look(task: Task, dialect: Dialect, ask: Ask) -> Member | None:
    try:
        return dialect.understand(ask(dialect.read(task.network, task.node)), task.node)
    except Refused as refused:
        if refused.status == 404 and not dialect.lists:
            return None
        raise
