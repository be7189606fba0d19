"""A plan as the commands that a person would type to have the same by hand; pure."""

from __future__ import annotations

from typing import Any

from zerotier_multi import names
from zerotier_multi.cpu import format_cpu_list
from zerotier_multi.op.data import SCHEMA
from zerotier_multi.pathd.routing import full_tunnel
from zerotier_multi.pathd.kernel.desired import Desired, member_sysctls, route_table
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.kernel.apply import rule_command
from zerotier_multi.pathd.kernel.sysctls import router_wide
from zerotier_multi.plan import GroupPlan, InstancePlan, PathPlan, Plan, RoutePlan
from zerotier_multi.netlink.nexthops import group_members
from zerotier_multi.netlink.routes import RT_TABLE_MAIN


def plan_data(plan: Plan) -> dict[str, Any]:
    """The commands as data, in sections."""
    sections = [
        ("instances", _instances(plan)),
        ("devices", _devices(plan)),
        ("settings", _settings(plan)),
        ("neighbours", [_neighbour(path) for path in plan.paths if path.lladdr]),
        ("next_hops", [_next_hop(path) for path in plan.paths]),
        ("groups", [_group(plan, group) for group in plan.groups]),
        ("routes", [command for route in plan.routes for command in _routes(plan, route)]),
        ("rules", _rules(plan)),
    ]
    return {
        "schema": SCHEMA,
        "bundle": plan.bundle,
        "engines": [{"instance": i.number, "command": engine_command(i)} for i in plan.instances],
        "sections": [{"section": name, "commands": commands} for name, commands in sections if commands],
    }


def _instances(plan: Plan) -> list[str]:
    return [f"systemctl start {i.unit.removesuffix('.service')}" for i in plan.instances]


def engine_command(instance: InstancePlan) -> str:
    """What an instance's unit runs, without its sandbox."""
    pin = f"taskset -c {format_cpu_list(instance.cpus)} " if instance.cpus else ""
    return f"{pin}{instance.engine} -U -p{instance.port} {instance.home}"


def _devices(plan: Plan) -> list[str]:
    if not plan.instances:
        return []
    master = f" master {plan.vrf}" if plan.vrf else ""
    mtu = f" mtu {plan.mtu}" if plan.mtu else ""
    found = [f"ip link add {plan.bundle} type dummy", f"ip link set {plan.bundle} up{master}"]
    found += [f"ip address add {address} dev {plan.bundle}" for address in plan.addresses]
    for instance in plan.instances:
        found.append(f"ip link set {instance.device} up{mtu}{master}")
        found += [f"ip address add {address} dev {instance.device}" for address in instance.transit]
    return found


def _settings(plan: Plan) -> list[str]:
    settings: dict[str, str] = dict(router_wide([plan]))
    for instance in plan.instances:
        settings |= member_sysctls(instance.device, "0")
    return [f"sysctl -w {name.replace('/', '.')}={value}" for name, value in settings.items()]


def _neighbour(path: PathPlan) -> str:
    return f"ip neigh replace {path.via} lladdr {path.lladdr} dev {path.device} nud permanent"


def _next_hop(path: PathPlan) -> str:
    return f"ip nexthop replace id {path.nexthop_id} via {path.via} dev {path.device} proto {names.RT_PROTO}"


def _group(plan: Plan, group: GroupPlan) -> str:
    weight_of = {path.nexthop_id: path.weight for path in plan.paths}
    members = group_members(group.members, tuple(weight_of[member] for member in group.members))
    kind = f" type resilient buckets {group.buckets} idle_timer {group.idle_timer}" if group.buckets else ""
    return f"ip nexthop replace id {group.group_id} group {members}{kind} proto {names.RT_PROTO}"


def _rules(plan: Plan) -> list[str]:
    """Those of a full tunnel. One for each address of the underlay is not among them: addresses come and go."""
    want = Desired()
    full_tunnel.add(want, [plan], KernelState())
    refusing = [f"ip route add unreachable {r.prefix} table {r.table} metric {r.metric}" for r in sorted(want.routes, key=str)]
    return refusing + [rule_command(rule) for rule in sorted(want.rules, key=lambda rule: (rule.family, rule.priority))]


def _routes(plan: Plan, route: RoutePlan) -> list[str]:
    """The route, and the one that FRR sees."""
    metric = names.route_metric(route.prefix)
    source = f" src {route.source}" if route.source else ""
    vrf = f" vrf {plan.vrf}" if plan.vrf else ""
    rest = f"{source}{vrf} proto {names.RT_PROTO}"
    table = route_table(plan, route.prefix, RT_TABLE_MAIN)
    if not plan.vrf and table != RT_TABLE_MAIN:
        return [f"ip route add {route.prefix} nhid {route.group_id}{rest} table {table}" + (f" metric {metric}" if metric else "")]
    return [
        f"ip route add {route.prefix} nhid {route.group_id}{rest}" + (f" metric {metric}" if metric else ""),
        f"ip route add {route.prefix} dev {plan.bundle}{rest} metric {names.SEEN_METRIC}",
    ]
