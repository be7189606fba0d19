"""``show zerotier ztN remotes``: what the configuration says of each remote, with what its invite brings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zerotier_multi.op.table import clean, dash, table
from zerotier_multi.op.text import none_of
from zerotier_multi.plan import Plan


def remotes_data(plan: Plan) -> dict[str, Any]:
    """The remotes as data; in the order of the configuration, those without an identity last."""
    names = dict.fromkeys([path.remote for path in plan.paths] + [group.remote for group in plan.groups])
    waiting = {remote.name: remote.prefixes for remote in plan.without_identity}
    groups = {group.group_id: group.remote for group in plan.groups}
    return {
        "schema": 1,
        "bundle": plan.bundle,
        "remotes": [
            {
                "name": name,
                "prefixes": [r.prefix for r in plan.routes if groups.get(r.group_id) == name] + list(waiting.get(name, ())),
                "instances": [
                    {
                        "instance": path.instance,
                        "via": path.via,
                        "node": next(
                            (p.identity[:10] for p in plan.peers if (p.remote, p.instance) == (name, path.instance)), None
                        ),
                        "endpoints": [
                            e for p in plan.peers if (p.remote, p.instance) == (name, path.instance) for e in p.endpoints
                        ],
                    }
                    for path in plan.paths
                    if path.remote == name
                ],
            }
            for name in (*names, *waiting)
        ],
    }


def remotes_text(data: Mapping[str, Any], is_disabled: bool = False) -> str:
    """The remotes as text."""
    if not data["remotes"]:
        return none_of(data["bundle"], "remotes", is_disabled)
    blocks = []
    for remote in data["remotes"]:
        rows = [
            [str(entry["instance"]), dash(entry["node"]), entry["via"], " ".join(entry["endpoints"]) or "-"]
            for entry in remote["instances"]
        ]
        head = f"Remote {clean(remote['name'])}: {', '.join(remote['prefixes']) or 'no prefixes'}"
        blocks.append(
            "\n".join([head, table(["Nr", "Node", "Next hop", "Endpoints"], rows, "rlll") if rows else "No identity yet."])
        )
    return "\n\n".join(blocks)
