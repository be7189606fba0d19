"""The requests of each kind of controller about a member of a network, and its answers; pure.

Sources: Central, https://docs.zerotier.com/openapi/central/v2.yaml (service accounts) and v1.json; zerotier-one,
``EmbeddedNetworkController::configureHTTPControlPlane`` of 1.14.1; ZTNET, ``src/pages/api/v1/network`` of its sources. An answer
is whatever somebody sends: what has another type than expected counts as absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from zerotier_multi.controller.settings import CENTRAL, CENTRAL_LEGACY, ZEROTIER_ONE, ZTNET

Body = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """One request; its path goes on after the base path of the controller."""

    method: str
    path: str
    body: Body | None = None


@dataclass(frozen=True)
class Member:
    """A member as its controller has it, or as it shall be. ``addresses`` None: as the controller has them."""

    name: str = ""
    authorized: bool = False
    addresses: frozenset[str] | None = None
    automatic: bool = True  # the controller may give further addresses


@dataclass(frozen=True)
class Dialect:
    """How one kind of controller is spoken to."""

    header: Callable[[str], tuple[str, str]]  # of a key
    read: Callable[[str, str], Request]  # of network and node
    understand: Callable[[Any, str], Member | None]  # an answer to it; None where that node is no member
    change: Callable[[str, str, Member, Member], list[Request]]  # network, node, as it is, as it shall be
    creates: bool = field(default=False)  # a member that has never asked can be written, too
    lists: bool = field(default=False)  # it is asked for all members, so that a 404 does not mean one that is missing


def _path(network: str, node: str) -> str:
    return f"/network/{network}/member/{node}"


def _read_member(network: str, node: str) -> Request:
    return Request("GET", _path(network, node))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _addresses(*values: object) -> frozenset[str]:
    found = set()
    for value in values:
        for text in value if isinstance(value, list) else ():
            try:
                found.add(str(ip_address(text)))
            except ValueError:
                continue
    return frozenset(found)


def _posted(network: str, node: str, body: Body) -> list[Request]:
    return [Request("POST", _path(network, node), body)] if body else []


def _assigned(have: Member, want: Member) -> bool:
    """Whether the addresses are to be written."""
    return want.addresses is not None and (have.addresses != want.addresses or have.automatic != want.automatic)


def _of_family(addresses: frozenset[str] | None, version: int) -> list[str]:
    return sorted(a for a in addresses or () if ip_address(a).version == version)


# -- zerotier-one's own


def _controller_fields(have: Member, want: Member) -> Body:
    body: Body = {}
    if want.authorized and not have.authorized:
        body["authorized"] = True
    if _assigned(have, want):
        body |= {"ipAssignments": sorted(want.addresses or ()), "noAutoAssignIps": not want.automatic}
    return body


def _name(have: Member, want: Member) -> Body:
    return {"name": want.name} if have.name != want.name else {}


def _of_controller(answer: Any, _node: str) -> Member | None:
    if not isinstance(answer, Mapping):
        return None
    return Member(
        _text(answer.get("name")), answer.get("authorized") is True, _addresses(answer.get("ipAssignments")),
        answer.get("noAutoAssignIps") is not True,
    )  # fmt: skip


def _change_controller(network: str, node: str, have: Member, want: Member) -> list[Request]:
    return _posted(network, node, {**_name(have, want), **_controller_fields(have, want)})


# -- Central as it was until 2025: the controller's fields are below "config"


def _of_legacy(answer: Any, node: str) -> Member | None:
    if not isinstance(answer, Mapping):
        return None
    member = _of_controller(answer.get("config"), node) or Member(addresses=frozenset())
    return Member(_text(answer.get("name")), member.authorized, member.addresses, member.automatic)


def _change_legacy(network: str, node: str, have: Member, want: Member) -> list[Request]:
    config = _controller_fields(have, want)
    return _posted(network, node, {**_name(have, want), **({"config": config} if config else {})})


# -- Central of today: a state instead of a flag, which is changed by a request of its own


def _of_central(answer: Any, _node: str) -> Member | None:
    if not isinstance(answer, Mapping):
        return None
    return Member(
        _text(answer.get("name")),
        answer.get("status") == "authorized",
        _addresses(answer.get("ipv4Assignments"), answer.get("ipv6Assignments")),
        answer.get("noAutoAssignIps") is not True,
    )


def _change_central(network: str, node: str, have: Member, want: Member) -> list[Request]:
    body = _name(have, want)
    if _assigned(have, want):
        body |= {
            "ipv4Assignments": _of_family(want.addresses, 4),
            "ipv6Assignments": _of_family(want.addresses, 6),
            "noAutoAssignIps": not want.automatic,
        }
    found = _posted(network, node, body)
    if want.authorized and not have.authorized:
        found.append(Request("POST", f"{_path(network, node)}/authorize"))
    return found


# -- ZTNET: one member cannot be read alone, and has no addresses to write


def _read_list(network: str, _node: str) -> Request:
    return Request("GET", f"/network/{network}/member")


def _of_list(answer: Any, node: str) -> Member | None:
    members = answer if isinstance(answer, list) else []
    return next(
        (_of_controller(m, node) for m in members if isinstance(m, Mapping) and node in (m.get("id"), m.get("address"))), None
    )


def _change_ztnet(network: str, node: str, have: Member, want: Member) -> list[Request]:
    authorized = {"authorized": True} if want.authorized and not have.authorized else {}
    return _posted(network, node, {**_name(have, want), **authorized})


DIALECTS: Mapping[str, Dialect] = {
    CENTRAL: Dialect(lambda key: ("Authorization", f"Bearer {key}"), _read_member, _of_central, _change_central),
    CENTRAL_LEGACY: Dialect(lambda key: ("Authorization", f"token {key}"), _read_member, _of_legacy, _change_legacy, creates=True),
    ZEROTIER_ONE: Dialect(lambda key: ("X-ZT1-Auth", key), _read_member, _of_controller, _change_controller, creates=True),
    ZTNET: Dialect(lambda key: ("x-ztnet-auth", key), _read_list, _of_list, _change_ztnet, lists=True),
}
