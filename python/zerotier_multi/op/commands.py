"""A plan as the commands that a person would type to have the same by hand; pure."""

from __future__ import annotations

from typing import Any

from zerotier_multi.cpu import format_cpu_list
from zerotier_multi.netlink.links import Link, Neighbour
from zerotier_multi.netlink.nexthops import NextHop, NextHopGroup
from zerotier_multi.netlink.rules import Rule
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.op.data import SCHEMA
from zerotier_multi.pathd.kernel.actions import Action, Put, PutRoute, actions
from zerotier_multi.pathd.kernel.commands import Names, commands, names_of
from zerotier_multi.pathd.kernel.desired import desired_state
from zerotier_multi.pathd.kernel.imagined import after
from zerotier_multi.pathd.kernel.sysctls import router_wide
from zerotier_multi.pathd.routing import full_tunnel
from zerotier_multi.plan import InstancePlan, Plan
from zerotier_multi.planner import best_mtu

_SECTIONS = ("instances", "devices", "settings", "neighbours", "next_hops", "groups", "routes", "rules")
_ENGINE_MTU = 2800  # of a device that an engine makes for a network without one of its own, in bytes
_SOME_TABLE = 0xFFFFFFFF  # of a VRF, which the commands name by its device


def plan_data(plan: Plan) -> dict[str, Any]:
    """The commands as data, in sections."""
    done, known, settings = _carried_out(plan)
    sections: dict[str, list[str]] = {name: [] for name in _SECTIONS}
    sections["instances"] = [f"systemctl start {i.unit.removesuffix('.service')}" for i in plan.instances]
    sections["settings"] = [f"sysctl -w {name.replace('/', '.')}={value}" for name, value in settings.items()]
    for action in done:
        sections[_section(action)] += commands(action, known)
    return {
        "schema": SCHEMA,
        "bundle": plan.bundle,
        "engines": [{"instance": i.number, "command": engine_command(i)} for i in plan.instances],
        "sections": [{"section": name, "commands": found} for name, found in sections.items() if found],
    }


def engine_command(instance: InstancePlan) -> str:
    """What an instance's unit runs, without its sandbox."""
    pin = f"taskset -c {format_cpu_list(instance.cpus)} " if instance.cpus else ""
    return f"{pin}{instance.engine} -U -p{instance.port} {instance.home}"


def _carried_out(plan: Plan) -> tuple[list[Action], Names, dict[str, str]]:
    """What zerotier-pathd does on a router that has nothing but the devices of the instances: actions and settings."""
    state, done = _bare(plan), list[Action]()
    while True:
        want = desired_state([plan], state, (), True, {}, 0.0)
        full_tunnel.add(want, [plan], state)
        todo = actions(want, state)
        if not todo:
            return done, names_of(state.links.values()), {**router_wide([plan]), **want.sysctls}
        done += todo
        for action in todo:
            state = after(state, action)


def _bare(plan: Plan) -> KernelState:
    mtu = _ENGINE_MTU if plan.mtu else best_mtu(_ENGINE_MTU)
    members = [device for i in plan.instances for device in i.devices]
    links = [Link(2 + n, device, "tun", mtu, False, True) for n, device in enumerate(members, start=1)]
    if plan.vrf:
        links.append(Link(1, plan.vrf, "vrf", 65536, True, True, table=_SOME_TABLE))
    return KernelState(links={link.name: link for link in links})


def _section(action: Action) -> str:
    """Rules come with the route that refuses what no rule has sent elsewhere."""
    match action:
        case Put(Neighbour()):
            return "neighbours"
        case Put(NextHop()):
            return "next_hops"
        case Put(NextHopGroup()):
            return "groups"
        case PutRoute(route):
            return "routes" if route.nexthop_id or route.index else "rules"
        case Put(Rule()):
            return "rules"
        case _:
            return "devices"
