"""The answers as text of at most 80 columns; pure, and made of the same data that ``--raw`` gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from zerotier_multi.op.controller import controller_rows
from zerotier_multi.op.errors import disabled
from zerotier_multi.op.marks import diverted_note
from zerotier_multi.op.table import (
    WIDTH,
    clean,
    dash,
    duration,
    mbit,
    mebibytes,
    milliseconds,
    pairs,
    percent,
    state,
    table,
    wrap,
)
from zerotier_multi.plan import CLAMP_TO_PMTU, NO_CLAMP
from zerotier_multi.states import BundleState, NetworkState

Data = dict[str, Any]
_GROUPS = {True: "resilient", False: "plain; the kernel has no resilient groups"}
NOTHING = "No ZeroTier interface is configured; start with: set interfaces zerotier zt0 ..."


def joined(*parts: str) -> str:
    """Parts with a blank line between them."""
    return "\n\n".join(part for part in parts if part)


def warning_lines(sentences: Iterable[str], colour: bool = False) -> str:
    """Warnings, one after the other."""
    head = state("Warning:", colour)
    lines: list[str] = []
    for sentence in dict.fromkeys(sentences):
        first, *rest = wrap(f"Warning: {clean(sentence)}", rest="  ")
        lines += [first.replace("Warning:", head, 1), *rest]
    return "\n".join(lines)


def none_of(bundle: str, what: str, is_disabled: bool) -> str:
    """What stands in place of a table without rows."""
    return f"{disabled(bundle)}." if is_disabled else f"{bundle} has no {what}."


def _window(data: Data) -> str:
    return f"Rates and CPU use are averages over the last {data['window_seconds']:.1f} s."


def _of(entry: Data, what: str) -> str:
    return f"{entry[what + '_up']}/{entry[what + '_total']}"


# -- bundles


def summary(data: Data, colour: bool) -> str:
    """``show zerotier``."""
    if not data["bundles"]:
        return warning_lines(data["warnings"], colour) or NOTHING
    rows = [
        [
            b["bundle"], state(b["state"], colour), _of(b, "instances"), _of(b, "paths"),
            mbit(b["rate_in_bits"]), mbit(b["rate_out_bits"]), dash(b["hash_policy"]),
        ]
        for b in data["bundles"]
    ]  # fmt: skip
    headers = [
        "Interface", "State", "Instances\nup/total", "Paths\nup/total", "In\nMbit/s", "Out\nMbit/s", "Hash\npolicy",
    ]  # fmt: skip
    warnings = [*data["warnings"], *(w for b in data["bundles"] for w in b["warnings"])]
    window = f"Rates are averages over the last {data['window_seconds']:.1f} s."
    return joined(table(headers, rows, "llrrrrl"), warning_lines(warnings, colour), window)


def bundle(data: Data, colour: bool) -> str:
    """``show zerotier ztN``."""
    health = data["health"]
    probing = f"every {health['interval_ms']} ms, down after {health['multiplier']} missed"
    head = pairs(
        [
            ("Interface", data["bundle"]),
            *description(data),
            ("State", state(data["state"], colour)),
            ("Instances", f"{data['instances_up']} of {data['instances_total']} up"),
            ("Paths", f"{data['paths_up']} of {data['paths_total']} up"),
            ("Rate in", f"{mbit(data['rate_in_bits'])} Mbit/s, {dash(data['rate_in_packets'])} packets/s"),
            ("Rate out", f"{mbit(data['rate_out_bits'])} Mbit/s, {dash(data['rate_out_packets'])} packets/s"),
            ("Hash policy", _hash(data)),
            ("Groups", _GROUPS.get(data["resilient"], "-")),
            ("Addresses", ", ".join(data["addresses"]) or "-"),
            ("VRF", dash(data["vrf"])),
            *_copies(data),
            ("Transit MTU", f"{data['mtu']} bytes" if data["mtu"] else "-"),
            ("Adjust MSS", _mss(data["adjust_mss"])),
            ("Mode", _mode(data)),
            *([("Moons", ", ".join(data["moons"]))] if data["moons"] else []),
            ("Networks", ", ".join(data["networks"]) or "-"),
            *[("Bridge", f"{b['bridge']}: network {b['network']}, {_port(b)}") for b in data["bridges"]],
            *controller_rows(data["controller"]),
            ("Engine", _engine(data)),
            ("Health check", probing if health["enabled"] else "off"),
        ]
    )
    remotes = _remotes(data["remotes"])
    rows = [
        [
            str(i["instance"]), state(instance_word(i), colour), dash(i["node"]), dash(i["cpu_percent"]),
            mbit(i["rate_in_bits"]), mbit(i["rate_out_bits"]), duration(i["uptime_seconds"]), i["device"],
        ]
        for i in data["instances"]
    ]  # fmt: skip
    headers = ["Instance", "State", "Node", "CPU\n%", "In\nMbit/s", "Out\nMbit/s", "Uptime", "Device"]
    listed = table(headers, rows, "rllrrrrl") if rows else ""
    warnings = warning_lines([*data["general_warnings"], *data["warnings"]], colour)
    window = _window(data) if rows else ""
    return joined(head, remotes, listed, _not_up(data, colour), warnings, _to_authorize(data), window)


def _mode(data: Data) -> str:
    if data["controller_free"]:
        return "controller-free"
    return "with a controller and private roots" if data["private_roots"] else "with a controller"


def _engine(data: Data) -> str:
    """The program's name, and what chose it where the configuration does not."""
    if not data["engine"]:
        return "-"
    name = data["engine"].rpartition("/")[2]
    return f"{name} ({data['engine_reason']})" if data["engine_reason"] else name


def _mss(entries: Sequence[Data]) -> str:
    words = {CLAMP_TO_PMTU: "to path MTU", NO_CLAMP: "off"}
    found = {entry["family"]: words.get(entry["mss"], f"{entry['mss']} bytes") for entry in entries}
    if len(set(found.values())) == 1:
        return found[4]
    return ", ".join(f"IPv{family} {text}" for family, text in found.items())


def _hash(data: Data) -> str:
    if data["hash_policy"] is None:
        return "none needed (fewer than two instances)"
    if data["hash_policy_in_kernel"] in (None, data["hash_policy"]):
        return str(data["hash_policy"])
    return f"{data['hash_policy']} (but the kernel has {data['hash_policy_in_kernel']})"


def _remotes(entries: Sequence[Data]) -> str:
    if not entries:
        return ""
    rows = []
    for entry in entries:
        prefixes = entry["prefixes"] or ["-"]
        rows.append([clean(entry["remote"]), _of(entry, "paths"), prefixes[0]])
        rows += [["", "", prefix] for prefix in prefixes[1:]]
    return table(["Remote", "Paths\nup/total", "Prefixes"], rows, "lrl")


def _not_up(data: Data, colour: bool) -> str:
    """The paths that are not up, and why."""
    rows = [
        [
            f"{data['bundle']}/{p['instance']} to {clean(p['remote'])} (IPv{p['family']})",
            state(p["state"], colour),
            dash(p["cause"]),
        ]
        for p in data["paths_not_up"]
    ]
    return table(["Path", "State", "Cause"], rows) if rows else ""


def instance_word(entry: Data) -> str:
    """The state of an instance, or where it stands on its network when that says more."""
    network = entry["network_state"]
    return str(entry["state"] if entry["state"] == BundleState.DOWN or network in (None, NetworkState.UP) else network)


def _to_authorize(data: Data) -> str:
    """The node ids that wait for authorization, to be copied."""
    return "\n".join(
        line
        for entry in data["to_authorize"]
        for line in (f"To authorize on network {entry['network']}:", *wrap(" ".join(entry["nodes"]), first="  ", rest="  "))
    )


# -- instances and paths


def instances(data: Data, colour: bool) -> str:
    """``show zerotier ztN instances``."""
    if not data["instances"]:
        return f"{disabled(data['bundle'])}."
    headers = [
        "Nr", "State", "Node", "Version", "Port", "CPUs", "CPU\n%", "Memory\nMiB", "Uptime", "Re-\nstarts", "Device",
    ]  # fmt: skip
    rows = [
        [
            str(i["instance"]), state(instance_word(i), colour), dash(i["node"]), dash(i["version"]), str(i["port"]),
            dash(i["cpus"]), dash(i["cpu_percent"]), mebibytes(i["memory_bytes"]), duration(i["uptime_seconds"]),
            str(i["restarts"]), i["device"] if i["device_present"] else "-",
        ]
        for i in data["instances"]
    ]  # fmt: skip
    return joined(
        table(headers, rows, "rlllrlrrrrl"),
        warning_lines(data["warnings"], colour),
        _to_authorize(data),
        _offloads_off(data["instances"]),
        f"CPU use is an average over the last {data['window_seconds']:.1f} s; 100 % is one CPU.",
    )


def _offloads_off(found: Sequence[Data]) -> str:
    """The instances without some offload, and which: those that lack the same are one sentence."""
    lacking: dict[str, list[str]] = {}
    for instance in found:
        if off := ", ".join(clean(name) for name in instance.get("offloads_off") or ()):
            lacking.setdefault(off, []).append(str(instance["instance"]))
    return "\n".join(
        f"Instance{'s' if len(numbers) > 1 else ''} {', '.join(numbers)} without offloads: {names}"
        for names, numbers in lacking.items()
    )


def _link(path: Data, colour: bool) -> str:
    """``direct``, or by way of whom."""
    return state(f"via {clean(path['relay'])}" if path["relay"] else dash(path["link"]), colour)


def paths(data: Data, colour: bool, is_disabled: bool = False) -> str:
    """``show zerotier ztN paths``; a table per remote."""
    if not data["paths"]:
        return joined(none_of(data["bundle"], "paths", is_disabled), warning_lines(data["warnings"], colour))
    headers = [
        "Nr", "Next hop", "Peer node", "Underlay\naddress", "Link", "Latency\nms", "Loss\n%", "State", "Since",
    ]  # fmt: skip
    parts = []
    for remote in dict.fromkeys(p["remote"] for p in data["paths"]):
        rows = [
            [
                str(p["instance"]), p["next_hop"], dash(p["peer_node"]), dash(p["underlay_address"]),
                _link(p, colour), milliseconds(p["latency_ms"]), percent(p["loss"]), state(p["state"], colour),
                duration(None if p["since"] is None else data["now"] - p["since"]),
            ]
            for p in data["paths"]
            if p["remote"] == remote
        ]  # fmt: skip
        versions = {":" in p["next_hop"] for p in data["paths"] if p["remote"] == remote}
        each = "instance and IP version" if len(versions) > 1 else "instance"
        parts.append(f"Remote {clean(remote)}, one path per {each}\n{table(headers, rows, 'rllllrrlr')}")
    return joined(*parts, warning_lines(data["warnings"], colour))


# -- routes and balance


def routes(data: Data, colour: bool, is_disabled: bool = False) -> str:
    """``show zerotier ztN routes``."""
    if not data["routes"]:
        return joined(none_of(data["bundle"], "routes", is_disabled), warning_lines(data["warnings"], colour))
    rows: list[list[str]] = []
    for route in data["routes"]:
        head = [route["prefix"], dash(route["remote"]), dash(route["group"]), _kind(route)]
        if not route["next_hops"]:
            rows.append([*head, "-", "-", "-", state("missing", colour)])
        for hop in route["next_hops"]:
            rows.append([*head, dash(hop["via"]), dash(hop["device"]), str(hop["weight"]), state(hop["state"], colour)])
            head = [""] * len(head)
    headers = ["Prefix", "Remote", "Group", "Buckets", "Next hop", "Device", "Weight", "State"]
    stray = [
        f"the route to {r['prefix']} is not in the configuration; zerotier-pathd will remove it"
        for r in data["routes"]
        if not r["planned"]
    ]
    notes = "\n".join(
        line for entry in data["diverted"] for line in wrap(f"Note: {diverted_note(data['bundle'], entry)}", rest="  ")
    )
    return joined(table(headers, rows, "llrrllrl"), warning_lines([*data["warnings"], *stray], colour), notes)


def _kind(route: Data) -> str:
    return "-" if route["buckets"] is None else str(route["buckets"] or "plain")


_ORIGIN = {
    "conntrack": "Flows are connection tracking entries to a prefix of a remote",
    "sockets": "Flows are connected sockets of this router to a prefix of a remote; forwarded flows are not counted, "
    "because connection tracking is not in use",
}


def balance(data: Data, colour: bool) -> str:
    """``show zerotier ztN balance``."""
    if not data["members"]:
        return f"{disabled(data['bundle'])}."
    rows = [
        [
            str(m["instance"]), m["device"], mebibytes(m["bytes_in"]), percent(m["bytes_in_share"]),
            mebibytes(m["bytes_out"]), percent(m["bytes_out_share"]), str(m["flows"]), percent(m["flows_share"]),
            percent(m["load"]),
        ]
        for m in data["members"]
    ]  # fmt: skip
    headers = ["Nr", "Device", "In\nMiB", "In\n%", "Out\nMiB", "Out\n%", "Flows", "Flows\n%", "Load\n%"]
    notes = [
        "Byte counters start with the instance.",
        f"{_ORIGIN[data['flow_source']]}. Each flow is listed on the path that the kernel's hash selects for outgoing packets.",
    ]
    if any(m["load"] is not None for m in data["members"]):
        notes.append("Load is the share of time in which an instance runs or waits for its CPU; balance weights auto uses it.")
    if data["flows_capped"]:
        notes.append(f"Only the first {data['flow_limit']} flows were examined.")
    if data["flows_elsewhere"]:
        notes.append(f"{data['flows_elsewhere']} more flows to these prefixes do not leave through {data['bundle']}.")
    return joined(
        table(headers, rows, "rlrrrrrrr"),
        warning_lines(data["warnings"], colour),
        "\n".join(line for note in notes for line in wrap(note)),
    )


# -- plan


def plan(data: Data) -> str:
    """``show zerotier ztN plan``: a script that a shell would take."""
    lines = [f"# {data['bundle']} by hand, as root. The plan; for the state: show zerotier {data['bundle']}"]
    engines = iter(data["engines"])
    for section in data["sections"]:
        lines.append("")
        for command in section["commands"]:
            lines += break_command(command)
            if section["section"] == "instances":
                lines += [f"#   {line}" for line in break_command(next(engines)["command"], WIDTH - 4)]
    return "\n".join(lines)


def break_command(command: str, width: int = WIDTH) -> list[str]:
    """A command in lines that the shell puts together again.

    A word that is longer than a line is broken too, and goes on without an indent.
    """
    lines, line = [], ""
    for word in command.split(" "):
        if line and len(line) + 1 + len(word) + 2 > width:
            lines.append(f"{line} \\")
            line = f"    {word}"
        else:
            line = f"{line} {word}" if line else word
        while len(line) + 2 > width:
            cut = line.rfind("/", 1, width - 1) + 1 or width - 1
            lines.append(f"{line[:cut]}\\")
            line = line[cut:]
    return [*lines, line]


def _port(bridge: Data) -> str:
    return f"port {bridge['device']}" if bridge["joined"] else f"{bridge['device']} is not its port"


def _copies(data: Data) -> list[tuple[str, str]]:
    """Lines of mirror and redirect; none where there is none."""
    named = (("Mirror ingress", "mirror_ingress"), ("Mirror egress", "mirror_egress"), ("Redirect", "redirect"))
    return [(label, f"to {data[key]}") for label, key in named if data[key]]


def description(entry: Data) -> list[tuple[str, str]]:
    """The line of a description; none where there is none."""
    return [("Description", entry["description"])] if entry["description"] else []
