"""The networks of the instances beside those with paths, as data; pure."""

from __future__ import annotations

from typing import Any

from zerotier_multi import membership
from zerotier_multi.membership import Member
from zerotier_multi.op.snapshot import Snapshot
from zerotier_multi.plan import InstancePlan, Plan

Data = dict[str, Any]


def is_plain_member(plan: Plan) -> bool:
    """Whether a bundle has no paths on purpose: its networks have addresses or a bridge, and no remote is configured."""
    networks = [network for i in plan.instances for network in i.joined]
    return not (plan.paths or plan.without_identity) and any(
        network.addresses or network.allow_managed or network.bridge for network in networks
    )


def further_members(snapshot: Snapshot, plan: Plan, instance: InstancePlan) -> list[Member]:
    """Where an instance stands on the further networks that it joins."""
    answer = snapshot.answer(instance)
    node, online = node_of(snapshot, instance), bool((answer.status or {}).get("online"))
    found = [
        membership.further_member(plan, instance, network, membership.network_status(answer.networks, network), online, node)
        for network in (n.network_id for n in instance.joined[1:])
    ]
    return [member for member in found if member]


def node_of(snapshot: Snapshot, instance: InstancePlan) -> str | None:
    """The node of an instance, as its home or else its API has it."""
    return snapshot.nodes.get(instance.unit) or (snapshot.answer(instance).status or {}).get("address")


def further_networks(snapshot: Snapshot, plan: Plan, instance: InstancePlan) -> list[Data]:
    """The further networks of an instance, and where it stands on them."""
    words = {member.network: member.word for member in further_members(snapshot, plan, instance)}
    return [
        {
            "network": network.network_id,
            "network_state": words.get(network.network_id),
            "network_status": membership.network_status(snapshot.answer(instance).networks, network.network_id),
            "device": network.device,
            "device_present": network.device in snapshot.kernel.links,
        }
        for network in instance.joined[1:]
    ]
