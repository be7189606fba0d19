"""The answers to the ``show`` commands: data when ``raw`` is set, otherwise text."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from zerotier_multi import names
from zerotier_multi.importing import lines as importing
from zerotier_multi.importing.process import ImportProblem
from zerotier_multi.op import balance as balances
from zerotier_multi.op import commands, data, identity, text
from zerotier_multi.op import invite as invites
from zerotier_multi.op import remotes as remote_data
from zerotier_multi.op import routes as route_data
from zerotier_multi.op.errors import WrongValue
from zerotier_multi.op.gather import enabled_plan_of, known_bundles, plan_of, plans_in_force, read_diverted, require_root, snapshot
from zerotier_multi.op.interfaces import interfaces_data, interfaces_text
from zerotier_multi.op.snapshot import Snapshot
from zerotier_multi.op.table import use_colour
from zerotier_multi.plan import Plan
from zerotier_multi.plans import published_plans
from zerotier_multi.values import shown

Answer = dict[str, Any] | str


def summary(raw: bool) -> Answer:
    """All bundles."""
    plans, unusable = plans_in_force()
    found = data.summary(snapshot(plans, unusable), unusable)
    return found if raw else text.summary(found, use_colour())


def _look(bundle: str) -> tuple[Snapshot, Plan]:
    plan = plan_of(bundle)
    return snapshot([plan]), plan


def bundle(raw: bool, bundle: str) -> Answer:
    """One bundle in detail."""
    found = data.bundle(*_look(bundle))
    return found if raw else text.bundle(found, use_colour())


def instances(raw: bool, bundle: str) -> Answer:
    """The instances of a bundle."""
    found = data.instances(*_look(bundle))
    return found if raw else text.instances(found, use_colour())


def paths(raw: bool, bundle: str) -> Answer:
    """The paths of a bundle."""
    seen, plan = _look(bundle)
    found = data.paths(seen, plan)
    return found if raw else text.paths(found, use_colour(), not plan.instances)


def routes(raw: bool, bundle: str) -> Answer:
    """The routes of a bundle as the kernel has them."""
    seen, plan = _look(bundle)
    found = route_data.routes(seen, plan, read_diverted(plan, seen.kernel.links))
    return found if raw else text.routes(found, use_colour(), not plan.instances)


def balance(raw: bool, bundle: str) -> Answer:
    """How traffic is spread over the paths of a bundle."""
    seen, plan = _look(bundle)
    found = balances.balance(seen, plan, balances.read_balance(seen, plan))
    return found if raw else text.balance(found, use_colour())


def plan(raw: bool, bundle: str) -> Answer:
    """The plan as commands."""
    require_root()
    found = commands.plan_data(plan_of(bundle))
    return found if raw else text.plan(found)


def identities(raw: bool, bundle: str, name: str | None, everything: bool = False) -> Answer:
    """What the other router has to be told; ``name`` is this router's name there, its host name by default.

    ``everything`` adds addresses that are left out for being private or a LAN's.
    """
    known, plan = _own_name(bundle, name, "identity"), (plan_of if raw else enabled_plan_of)(bundle)
    found = identity.identity_data(plan, published_plans(), everything)
    return found if raw else identity.identity_commands(found, known)


def invite(raw: bool, bundle: str, name: str | None, everything: bool = False, qr: bool = False) -> Answer:
    """The same as one command; ``qr`` adds a QR code of it."""
    known, wanted = _own_name(bundle, name, "invite"), plan_of(bundle)
    found = identity.identity_data(wanted, published_plans(), everything)
    made = invites.invite_data(wanted, found, known)
    if raw:
        return made
    command = str(made["command"])
    remarks = [*identity.remarks(found, "invite"), *invites.left_out(found, known)]
    return "\n".join([command, *remarks, *([invites.qr_code(command)] if qr else [])])


def _own_name(bundle: str, name: str | None, word: str) -> str:
    """What another router calls this one: as given, or the host name. Raises :class:`WrongValue`."""
    known = name if name is not None else socket.gethostname()
    if not names.REMOTE_RE.fullmatch(known):
        raise WrongValue(
            f"{word} name {shown(known)} cannot be the name of a remote: use letters, digits, -, _ and . (at most 63)"
            if name is not None
            else f"the host name {shown(known)} cannot be the name of a remote; give a name: show zerotier {shown(bundle)} {word} name R1"
        )
    return known


def remotes(raw: bool, bundle: str) -> Answer:
    """What the configuration says of the remotes, invites read."""
    plan = plan_of(bundle)
    found = remote_data.remotes_data(plan)
    return found if raw else remote_data.remotes_text(found, not plan.instances)


def imported(raw: bool, path: str) -> Answer:
    """The commands for what runs ZeroTier elsewhere: a home, a directory of homes, or a configuration."""
    require_root()
    try:
        found = importing.commands(importing.read_source(Path(path)), known_bundles())
    except ImportProblem as problem:
        raise WrongValue(str(problem)) from None
    if not raw:
        return "\n".join(found)
    remarks = [line.removeprefix("# ") for line in found if line.startswith("#")]
    return {"schema": 1, "commands": [line for line in found if not line.startswith("#")], "remarks": remarks}


def interfaces(raw: bool, bundle: str | None, detail: bool, statistics: bool) -> Answer:
    """The devices of all bundles, or of one."""
    plans, unusable = ([plan_of(bundle)], []) if bundle else plans_in_force()
    found = interfaces_data(snapshot(plans, unusable), unusable)
    return found if raw else interfaces_text(found, detail, statistics, use_colour())
