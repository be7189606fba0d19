"""``show zerotier ztN invite``: one line that makes this router known to another one."""

from __future__ import annotations

import ipaddress
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import Any

from zerotier_multi.identity import PublicIdentity
from zerotier_multi.invite import Invite, InvitedInstance, encode
from zerotier_multi.op.errors import Unavailable, disabled
from zerotier_multi.plan import Plan
from zerotier_multi.transit import site_of
from zerotier_multi.values import Endpoint, endpoint

MAX_ENDPOINTS = 8  # of an instance; a router with more addresses keeps its line short enough for a terminal


def invite_data(plan: Plan, identities: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The invite as data; ``identities`` is what :func:`op.identity.identity_data` gives. Raises :class:`Unavailable`."""
    if not plan.controller_free:
        raise Unavailable(f"{plan.bundle} has a controller, which makes its members known; invites are for controller-free")
    if not plan.instances:
        raise Unavailable(disabled(plan.bundle))
    transit = next((address for instance in plan.instances for address in instance.transit), None)
    if transit is None:
        raise Unavailable(f"{plan.bundle} has no site; set interfaces zerotier {plan.bundle} transit prefix and site")
    if not identities["instances"]:
        raise Unavailable(f"no instance of {plan.bundle} has an identity yet; try again in a few seconds")
    made = Invite(
        site=site_of(ipaddress.ip_interface(transit)),
        network=_only({instance.network_id for instance in plan.instances}),
        prefixes=tuple(ipaddress.ip_network(ipaddress.ip_interface(address).ip) for address in plan.addresses),
        instances={entry["instance"]: _instance(entry) for entry in identities["instances"]},
    )
    word = encode(made)
    return {
        "schema": 1,
        "bundle": plan.bundle,
        "name": name,
        "site": made.site,
        "prefixes": [str(prefix) for prefix in made.prefixes],
        "invite": word,
        "command": f"set interfaces zerotier {plan.bundle} remote {name} invite {word}",
    }


def _only(networks: set[str]) -> str | None:
    return next(iter(networks)) if len(networks) == 1 else None


def _instance(entry: Mapping[str, Any]) -> InvitedInstance:
    return InvitedInstance(PublicIdentity.parse(entry["identity"]), tuple(_chosen(entry)))


def _chosen(entry: Mapping[str, Any]) -> list[Endpoint]:
    """The endpoints of an instance that an invite has room for: the families in turn, since a remote may have one of them."""
    found = [endpoint(text) for text in entry["endpoints"]]
    if len(found) <= MAX_ENDPOINTS:
        return found
    families = ([one for one in found if one.address.version == version] for version in (4, 6))
    in_turn = [one for pair in zip_longest(*families) for one in pair if one is not None]
    return in_turn[:MAX_ENDPOINTS]


def left_out(identities: Mapping[str, Any], name: str) -> Iterable[str]:
    """Endpoints that an invite has no room for, as lines that conf mode leaves alone; ``name`` is this router's."""
    for entry in identities["instances"]:
        kept = set(map(str, _chosen(entry)))
        if rest := [text for text in entry["endpoints"] if text not in kept]:
            yield (
                f"# Left out of instance {entry['instance']}: {', '.join(rest)} (an invite has {MAX_ENDPOINTS} endpoints of each); "
                f"for all of them use the lines of: show zerotier {identities['bundle']} identity name {name}"
            )


def qr_code(text: str) -> str:
    """A text as a QR code for a terminal, by qrencode; where that is missing or fails, a line that says so."""
    program = shutil.which("qrencode")
    if program is None:
        return "# A QR code needs the program qrencode; install it with: apt install qrencode"
    done = subprocess.run(
        [program, "-t", "ANSIUTF8", "-o", "-"], input=text, capture_output=True, text=True, timeout=10, check=False
    )
    if done.returncode:
        return f"# No QR code: {(done.stderr.strip().splitlines() or ['qrencode gave no reason'])[0]}"
    return done.stdout.rstrip("\n")
