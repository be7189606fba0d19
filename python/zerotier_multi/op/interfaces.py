"""``show interfaces zerotier``: the devices of the bundles as network interfaces, as data and as text; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zerotier_multi.netlink.links import Link
from zerotier_multi.op.data import SCHEMA, Data, bits, window
from zerotier_multi.op.snapshot import Counters, Snapshot
from zerotier_multi.op.table import dash, mbit, pairs, state, table, wrap
from zerotier_multi.op.text import NOTHING, description, joined, warning_lines
from zerotier_multi.plan import Plan
from zerotier_multi.states import LinkState, link_state


def interfaces_data(snapshot: Snapshot, unusable: Iterable[str] = ()) -> Data:
    """The devices of the bundles as network interfaces; ``unusable`` says of further bundles what is wrong with their plans."""
    return {
        "schema": SCHEMA,
        "window_seconds": window(snapshot),
        "interfaces": [entry for plan in snapshot.plans for entry in _devices(snapshot, plan)],
        "warnings": [*unusable],
    }


def _devices(snapshot: Snapshot, plan: Plan) -> list[Data]:
    first = _device(snapshot, plan, plan.bundle, None)
    members = [(network, i) for i in plan.instances for network in i.joined]
    return [first, *(_device(snapshot, plan, network.device, i.number, network.network_id) for network, i in members)]


def _device_state(plan: Plan, link: Link | None) -> str:
    if link is None:
        return LinkState.NO_DEVICE if plan.instances else LinkState.DISABLED
    return link_state(link.up, link.carrier)


def _device(snapshot: Snapshot, plan: Plan, name: str, instance: int | None, network: str | None = None) -> Data:
    link, counters = snapshot.kernel.links.get(name), snapshot.last.counters.get(name, Counters())
    own = sorted(a.interface for a in snapshot.kernel.addresses if link and a.index == link.index)
    return {
        "interface": name,
        "bundle": plan.bundle,
        "instance": instance,
        "network": network,
        "description": plan.description if instance is None else "",
        "state": _device_state(plan, link),
        "index": link.index if link else None,
        "mtu": link.mtu if link else None,
        "vrf": plan.vrf,
        "addresses": own,
        "rate_in_bits": bits(snapshot.rate(name, "rx_bytes")),
        "rate_out_bits": bits(snapshot.rate(name, "tx_bytes")),
        **vars(counters),
    }


def interfaces_text(data: Data, detail: bool, statistics: bool, colour: bool) -> str:
    """``show interfaces zerotier``."""
    warnings = warning_lines(data["warnings"], colour)
    if not data["interfaces"]:
        return warnings or NOTHING
    return joined(_listed(data["interfaces"], detail, statistics, colour), warnings)


def _listed(entries: Sequence[Data], detail: bool, statistics: bool, colour: bool) -> str:
    if statistics:
        return _statistics(entries)
    if detail:
        return joined(*(_interface(entry, colour) for entry in entries))
    rows: list[list[str]] = []
    for entry in entries:
        addresses = entry["addresses"] or ["-"]
        mtu = dash(entry["mtu"])
        link = state(entry["state"], colour)
        rows.append([entry["interface"], addresses[0], mtu, link, dash(entry["vrf"]), _role(entry)])
        rows += [["", address, "", "", "", ""] for address in addresses[1:]]
    return table(["Interface", "IP address", "MTU\nbytes", "State", "VRF", "Role"], rows, "llrlll")


def _role(entry: Data) -> str:
    if entry["instance"] is None:
        return "loopback addresses"
    further = f", network {entry['network']}" if entry["interface"].startswith(f"{entry['bundle']}n") else ""
    return f"instance {entry['bundle']}/{entry['instance']}{further}"


def _interface(entry: Data, colour: bool) -> str:
    return pairs(
        [
            ("Interface", entry["interface"]),
            *description(entry),
            ("Role", _role(entry)),
            ("State", state(entry["state"], colour)),
            ("Index", dash(entry["index"])),
            ("MTU", f"{entry['mtu']} bytes" if entry["mtu"] else "-"),
            ("VRF", dash(entry["vrf"])),
            ("IP addresses", ", ".join(entry["addresses"]) or "-"),
            ("Rate in", f"{mbit(entry['rate_in_bits'])} Mbit/s"),
            ("Rate out", f"{mbit(entry['rate_out_bits'])} Mbit/s"),
            ("Received", _passed(entry, "rx")),
            ("Sent", _passed(entry, "tx")),
        ]
    )


def _passed(entry: Data, way: str) -> str:
    count, packets, errors, dropped = (entry[f"{way}_{what}"] for what in ("bytes", "packets", "errors", "dropped"))
    return f"{count} bytes, {packets} packets, {errors} errors, {dropped} dropped"


def _statistics(entries: Sequence[Data]) -> str:
    counters = [f"{way}_{what}" for way in ("rx", "tx") for what in ("bytes", "packets", "errors", "dropped")]
    headers = ["Interface", *(f"{c[:2].upper()}\n{c[3:]}" for c in counters)]
    rows = [[entry["interface"], *(str(entry[counter]) for counter in counters)] for entry in entries]
    note = "Zero is normal for ztN: it holds the addresses; traffic passes the devices of the instances."
    return joined(table(headers, rows, "lrrrrrrrr"), "\n".join(wrap(note)))
