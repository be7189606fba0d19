"""Where an instance stands on the network of a controller: the word for it, and what to do about it; pure.

The words are made of what the instance's own API tells: ``online`` of ``/status`` (a root has been heard) and
``status`` of ``/network``, which both engines spell as ZeroTier's service does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zerotier_multi.plan import InstancePlan, Plan
from zerotier_multi.states import WORKING, NetworkState, PathState

# ZeroTier's words that say by themselves what is the matter (OneService.cpp, _networkToJson).
_FAILURES = {
    "ACCESS_DENIED": NetworkState.UNAUTHORIZED,
    "NOT_FOUND": NetworkState.NOT_FOUND,
    "AUTHENTICATION_REQUIRED": NetworkState.SIGN_IN,
    "CLIENT_TOO_OLD": NetworkState.TOO_OLD,
    "PORT_ERROR": NetworkState.PORT_ERROR,
}


@dataclass(frozen=True)
class Member:
    """An instance on a controller's network; ``unreached`` are the remotes that none of its paths reaches."""

    bundle: str
    instance: int
    network: str
    port: int
    node: str | None
    word: NetworkState
    unreached: tuple[str, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether it is no member yet, or has lost its root: nothing can pass."""
        return self.word not in (NetworkState.UP, NetworkState.NO_PATH)


def network_status(networks: Iterable[Mapping[str, Any]] | None, network_id: str) -> str | None:
    """ZeroTier's word for a network in an answer to ``/network``; None where it is not in it."""
    for entry in networks or ():
        if str(entry.get("nwid") or entry.get("id")).lower() == network_id:
            status = entry.get("status")
            return status if isinstance(status, str) else None
    return None


def is_failure(status: str | None) -> bool:
    """Whether ZeroTier's word says by itself that an instance is no member: paths that are up do not contradict it."""
    return status in _FAILURES


def word(status: str | None, online: bool, paths: Sequence[bool]) -> NetworkState | None:
    """The word for an instance: ``status`` is ZeroTier's, ``paths`` says of each of its paths whether it is up.

    None where ``status`` is not known. A path that is up needs no root.
    """
    if status is None:
        return None
    if status in _FAILURES:
        return _FAILURES[status]
    if status != "OK":
        return NetworkState.REQUESTING if online else NetworkState.NO_ROOT
    if any(paths) or not paths:
        return NetworkState.UP
    return NetworkState.NO_PATH if online else NetworkState.NO_ROOT


def member(
    plan: Plan, instance: InstancePlan, status: str | None, online: bool, node: str | None, states: Sequence[tuple[str, str]]
) -> Member | None:
    """Where an instance stands; ``states`` are (remote, state) of its paths. None where ``status`` is not known."""
    # A path that is about to come, or is kept out on purpose, says nothing about the network.
    found = word(status, online, [state in WORKING for _remote, state in states if state in (*WORKING, PathState.DOWN)])
    if found is None:
        return None
    reached = {remote for remote, state in states if state in WORKING}
    unreached = tuple(dict.fromkeys(remote for remote, _state in states if remote not in reached))
    return Member(
        plan.bundle, instance.number, instance.network_id, instance.port, node, found,
        unreached if found == NetworkState.NO_PATH else (),
    )  # fmt: skip


def further_member(
    plan: Plan, instance: InstancePlan, network: str, status: str | None, online: bool, node: str | None
) -> Member | None:
    """Where an instance stands on a further network, which has no paths of ours.

    None where ``status`` is not known, and where it reaches no root: that is told of its own network.
    """
    found = word(status, online, ())
    if found in (None, NetworkState.NO_ROOT):
        return None
    return Member(plan.bundle, instance.number, network, instance.port, node, found)


def cause(member: Member) -> str:
    """Why nothing passes over an instance: a short sentence."""
    node = member.node or "its node"
    match member.word:
        case NetworkState.NO_ROOT:
            return "it reaches no root"
        case NetworkState.REQUESTING:
            return f"controller {_controller(member.network)} does not answer"
        case NetworkState.NOT_FOUND:
            return f"controller {_controller(member.network)} has no network {member.network}"
        case NetworkState.UNAUTHORIZED:
            return f"{node} waits for authorization on network {member.network}"
        case NetworkState.SIGN_IN:
            return f"network {member.network} requires {node} to sign in"
        case NetworkState.TOO_OLD:
            return "the controller requires a newer version of the engine"
        case NetworkState.PORT_ERROR:
            return "the engine cannot create its device"
        case NetworkState.NO_PATH:
            return f"authorized, no path to {_listed(member.unreached) or 'a remote'} yet"
    return f"a member of network {member.network}"


def sentences(members: Iterable[Member]) -> list[str]:
    """One sentence with its remedy for all instances that stand alike."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[Member]] = {}
    for member in members:
        if member.word != NetworkState.UP:
            groups.setdefault((member.word, member.network, member.unreached), []).append(member)
    return [_sentence(alike) for alike in groups.values()]


def _sentence(alike: Sequence[Member]) -> str:
    first, one = alike[0], len(alike) == 1
    network, controller = first.network, _controller(first.network)
    who = _listed([f"{m.bundle}/{m.instance}" for m in alike])
    nodes = ", ".join(m.node for m in alike if m.node)
    members = f"member{'' if one else 's'} {nodes}"
    ports = f"port{'' if one else 's'} {_listed([str(m.port) for m in alike])}"
    match first.word:
        case NetworkState.NO_ROOT:
            return f"{who} reach{'es' if one else ''} no root: allow UDP from {ports} to the roots and back"
        case NetworkState.REQUESTING:
            return (
                f"{who} get{'s' if one else ''} no answer from controller {controller} of network {network}: "
                f"check that it runs and that the network ID is right"
            )
        case NetworkState.NOT_FOUND:
            return f"{who}: controller {controller} has no network {network}: correct the network ID, or create the network there"
        case NetworkState.UNAUTHORIZED:
            return f"{who} wait{'s' if one else ''} for authorization: authorize {members} of network {network} at its controller"
        case NetworkState.SIGN_IN:
            return (
                f"{who} must sign in, which a router cannot do: exempt {members} of network {network} from "
                f"single sign-on at its controller"
            )
        case NetworkState.TOO_OLD:
            return f"the controller of network {network} refuses the engine of {who}: install a newer version, or set engine zerotier-one"
        case NetworkState.PORT_ERROR:
            return f"the engine of {who} cannot create its device: see the journal of {'its unit' if one else 'their units'}"
    remotes = _listed(first.unreached) or "a remote"
    return (
        f"{who} {'is' if one else 'are'} authorized on network {network} but {'has' if one else 'have'} no path to {remotes} "
        f"yet: see that {'it is' if one else 'they are'} still authorized, that instance{'' if one else 's'} "
        f"{_listed([str(m.instance) for m in alike])} of {remotes} run{'s' if one else ''} and {'is' if one else 'are'} authorized, "
        f"and that the rules of the network let ICMP pass between them"
    )


def to_authorize(members: Iterable[Member]) -> dict[str, list[str]]:
    """Node ids that wait for authorization, by network."""
    found: dict[str, list[str]] = {}
    for member in members:
        if member.word == NetworkState.UNAUTHORIZED and member.node:
            found.setdefault(member.network, []).append(member.node)
    return found


def _controller(network: str) -> str:
    """Node id of the controller: the first ten digits of the network id."""
    return network[:10]


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
