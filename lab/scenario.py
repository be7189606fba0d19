"""Configurations that tests, demo and benchmarks share, and what they measure on a router."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lab.lan import Lan
from lab.process import LabError
from lab.router import Router

NETWORK = "8056c2e21c000001"
IDENTITY = "/usr/libexec/vyos/op_mode/zerotier.py"


def loopback(router: Router, bundle: int = 0) -> str:
    """Loopback address of a router, as in the design's example."""
    return f"10.0.{55 + bundle}.{router.number}"


def loopback6(router: Router) -> str:
    """Its IPv6 counterpart."""
    return f"2001:db8:55::{router.number:x}"


def example(
    router: Router, others: Iterable[Router], instances: int, *, transit: Sequence[str] = ("10.14.0.0/28",),
    families: Sequence[int] = (4,), bundle: int = 0, engine: str = "auto", subnet_lengths: Sequence[int] = (),
) -> str:  # fmt: skip
    """The design's example, controller-free, for one router and the others of the link."""
    base = f"set interfaces zerotier zt{bundle}"
    lines = [
        f"{base} instances {instances}",
        f"{base} network-id {NETWORK}",
        f"{base} transit site {router.number}",
        f"{base} controller-free",
        f"{base} engine {engine}",
        *(f"{base} transit prefix {prefix}" for prefix in transit),
    ]
    lines += [f"{base} transit subnet-length {length}" for length in subnet_lengths]
    if 4 in families:
        lines.append(f"{base} address {loopback(router, bundle)}/32")
    if 6 in families:
        lines.append(f"{base} address {loopback6(router)}/128")
    for other in others:
        remote = f"{base} remote {other.name}"
        lines.append(f"{remote} site {other.number}")
        if 4 in families:
            lines.append(f"{remote} prefix {loopback(other, bundle)}/32")
        if 6 in families:
            lines.append(f"{remote} prefix {loopback6(other)}/128")
    return "\n".join(lines) + "\n"


def show_identity(router: Router, instances: int, *options: str, bundle: int = 0) -> str:
    """What ``show zerotier ztN identity`` prints, once all instances answer."""

    def look() -> str:
        text = router.run([IDENTITY, "show_identity", "--bundle", f"zt{bundle}", *options]).stdout
        numbers = {line.split()[7] for line in text.splitlines() if " endpoint " in line}
        return text if len(numbers) >= instances else ""

    return router.wait(look, what=f"identities and endpoints of {instances} instances")


def identity_lines(router: Router, instances: int, *, bundle: int = 0, endpoints: str = "46") -> str:
    """The ``set`` lines that make a router known to the others, once all its instances answer.

    ``endpoints`` says of which address families endpoints are passed on.
    """
    return "".join(
        f"{line}\n"
        for line in show_identity(router, instances, bundle=bundle).splitlines()
        if " endpoint " not in line or ("6" if line.split()[-1].startswith("[") else "4") in endpoints
    )


def invite_line(router: Router, instances: int, *, bundle: int = 0) -> str:
    """The same as one line."""
    show_identity(router, instances, bundle=bundle)
    return router.run(["ztsh", "show", "zerotier", f"zt{bundle}", "invite"]).stdout


def introduce(routers: Sequence[Router], instances: int, *, bundle: int = 0, endpoints: str = "46", invites: bool = False) -> None:
    """Pass every router's identities to the others, as their operators would, line by line or by invites."""
    if invites:
        lines = {r.name: invite_line(r, instances, bundle=bundle) for r in routers}
    else:
        lines = {r.name: identity_lines(r, instances, bundle=bundle, endpoints=endpoints) for r in routers}
    for router in routers:
        router.must_configure("".join(text for name, text in lines.items() if name != router.name))


def status(router: Router) -> dict[str, Any]:
    """What zerotier-pathd tells about itself."""
    program = "import json; from zerotier_multi.pathd.control import ask; print(json.dumps(ask({'op': 'status'})))"
    return dict(router.json(["/usr/bin/python3", "-c", program]))


def paths_up(router: Router, bundle: int = 0) -> int:
    """How many paths of a bundle carry traffic."""
    return sum(path["state"] == "up" for path in status(router)["bundles"][f"zt{bundle}"]["paths"])


def wait_paths(routers: Sequence[Router], count: int, *, bundle: int = 0, timeout: float = 20.0) -> None:
    """Wait until every router has exactly ``count`` paths up and reaches the loopbacks of the others."""
    for router in routers:
        router.wait(lambda r=router: paths_up(r, bundle) == count, timeout=timeout, what=f"{count} paths up")


def reach(router: Router, source: str, target: str, timeout: float = 20.0) -> None:
    """Wait until an echo comes back."""
    command = ["ping", "-c1", "-W1", "-I", source, target]
    router.wait(lambda: router.run(command, check=False).returncode == 0, timeout=timeout, what=f"echo from {source} to {target}")


def connect(routers: Sequence[Router], instances: int, **options: Any) -> None:
    """From booted routers to a link that carries traffic over all its paths."""
    endpoints, invites = options.pop("endpoints", "46"), options.pop("invites", False)
    families = options.get("families", (4,))
    bundle = options.get("bundle", 0)
    for router in routers:
        router.must_configure(example(router, [r for r in routers if r is not router], instances, **options))
    introduce(routers, instances, bundle=bundle, endpoints=endpoints, invites=invites)
    per_path = {p.count(":") > 0 for p in options.get("transit", ("10.14.0.0/28",))}
    wait_paths(routers, instances * (len(routers) - 1) * len(per_path), bundle=bundle)
    for router in routers:
        for other in routers:
            if other is not router:
                if 4 in families:
                    reach(router, loopback(router, bundle), loopback(other, bundle))
                if 6 in families:
                    reach(router, loopback6(router), loopback6(other))


def processes(router: Router, bundle: int = 0) -> dict[int, int]:
    """PID of every running instance."""
    units = router.run(["systemctl", "show", "--property=Id,MainPID,ActiveState", f"zerotier-multi@zt{bundle}-*.service"]).stdout
    found = {}
    for block in units.strip().split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if values.get("ActiveState") == "active":
            found[int(values["Id"].rpartition("-")[2].split(".")[0])] = int(values["MainPID"])
    return found


def member_bytes(router: Router, bundle: int = 0) -> dict[str, int]:
    """Bytes that have gone out over each member device."""
    links = router.json(["ip", "-s", "-j", "link", "show"])
    return {link["ifname"]: int(link["stats64"]["tx"]["bytes"]) for link in links if link["ifname"].startswith(f"zt{bundle}p")}


def cpu_seconds(router: Router, pids: Iterable[int]) -> dict[int, float]:
    """CPU time that each process has used, user and system."""
    found = {}
    for pid in pids:
        fields = router.read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        found[pid] = (int(fields[11]) + int(fields[12])) / 100
    return found


def resident(status: str) -> int:
    """Resident memory in KiB out of the text of ``/proc/PID/status``; 0 of a process that is gone."""
    return int((status.partition("VmRSS:")[2].split() or ["0"])[0])


def memory(router: Router, pid: int | str) -> int:
    """Resident memory of a process, KiB."""
    return resident(router.read(f"/proc/{pid}/status"))


def main_pid(router: Router, unit: str) -> int:
    """PID of the main process of a unit; 0 while it does not run."""
    return int(router.run(["systemctl", "show", "--property=MainPID", "--value", unit]).stdout)


def iperf(
    client: Router | Lan, server: Router | Lan, *, flows: int, seconds: int, source: str, target: str, port: int = 20000
) -> dict[str, Any]:
    """Run iperf3 TCP from one router or host to another and return its report; ``port`` is the first client port.

    Fixed client ports make the spread over the paths repeatable where the kernel's hash seed can be set. They lie below
    the kernel's range for unbound sockets (32768 up), or iperf3's own control connection may have taken one of them.
    """
    ports = f"sport >= :{port} and sport < :{port + flows}"
    client.wait(
        lambda: not client.run(["ss", "-Htn", "state", "connected", "exclude", "time-wait", f"src [{source}] and {ports}"]).stdout,
        what="the ports of the last iperf3 free, which it leaves with data to send",
    )
    listener = server.popen(["iperf3", "-s", "-1", "-B", target])
    try:
        server.wait(
            lambda: ":5201" in server.run(["ss", "-Hltn"]).stdout and target in server.run(["ss", "-Hltn"]).stdout,
            what="iperf3 server",
        )
        report = client.json(
            ["iperf3", "-J", "-c", target, "-B", source, "-P", str(flows), "-t", str(seconds), "--cport", str(port)],
            check=False,
            timeout=seconds + 30,
        )
    finally:
        listener.kill()
        listener.wait()
    if "error" in report:
        raise LabError(f"iperf3: {report['error']}")
    return dict(report)


def mbit(report: dict[str, Any]) -> float:
    """Received Mbit/s of an iperf3 report."""
    return float(report["end"]["sum_received"]["bits_per_second"]) / 1e6


def shares(before: dict[str, int], after: dict[str, int]) -> dict[str, float]:
    """Share of each member device of the bytes sent between two looks."""
    sent = {name: after[name] - before.get(name, 0) for name in after}
    total = sum(sent.values()) or 1
    return {name: value / total for name, value in sorted(sent.items())}
