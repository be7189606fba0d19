"""The worked examples of docs/vyos.md, line by line as they stand there, on two routers that have a LAN already."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import Lab, Router
from lab.lan import Lan
from lab.scenario import loopback, paths_up, reach, show_identity
from lab.underlay import PREFIX4, PREFIX6
from tests.lab.conftest import ENGINE, ROOT

DOCUMENT = ROOT / "docs/vyos.md"
GK41, MS01 = "Worked example: two GK41", "Worked example: two MS-01"


def examples(heading: str, routers: int = 2) -> list[str]:
    """The lines for R1, those for R2 and so on: the first blocks of commands below a heading."""
    text = DOCUMENT.read_text().partition(f"## {heading}")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```\n((?:set .*\n)+)```$", text, re.MULTILINE)
    assert len(blocks) >= routers, heading
    return blocks[:routers]


@pytest.fixture(scope="module")
def sites(lab: Lab) -> Iterator[tuple[list[Router], list[Lan]]]:
    routers = lab.add_routers(["R1", "R2"])
    # What a router has besides: a host's LAN, and a bridge of containers.
    lans = [Lan(router) for router in routers]
    for router in routers:
        router.run(["ip", "link", "add", "pod-web", "type", "bridge"])
        router.run(["ip", "address", "add", "10.99.0.1/24", "dev", "pod-web"])
        router.run(["ip", "link", "set", "pod-web", "up"])
        router.run(["ip", "route", "add", "default", "via", f"{PREFIX4}.254"])  # nobody is there: the link needs no Internet
        router.run(["ip", "route", "add", "default", "via", f"{PREFIX6}fe"])
    yield routers, lans


def engine() -> str:
    """The one line that the examples do not have: which of the installed engines these tests are about."""
    return f"set interfaces zerotier zt0 engine {Path(ENGINE).name}\n"


def exchange(routers: list[Router], instances: int) -> dict[str, str]:
    """Paste what each router prints, all of it, at the other."""
    printed = {router.name: show_identity(router, instances) for router in routers}
    for router in routers:
        for name, text in printed.items():
            if name != router.name:
                router.must_configure(text)
    return printed


def test_the_example_for_two_gk41(sites: tuple[list[Router], list[Lan]]) -> None:
    (r1, r2), (lan1, lan2) = sites
    for router, lines in zip((r1, r2), examples(GK41), strict=True):
        router.must_configure(engine() + lines)
    printed = exchange([r1, r2], 3)
    for router in (r1, r2):
        told = {line.split()[-1].rpartition(":")[0] for line in printed[router.name].splitlines() if " endpoint " in line}
        assert told == {router.underlay4, f"[{router.underlay6}]"}
        assert [line for line in printed[router.name].splitlines() if line.startswith("#")] == [
            f"# Left out: 192.168.{router.number}.1 (lan0 has no default route)",
            f"# Left out: 2001:db8:192:{router.number}::1 (lan0 has no default route)",
            "# To include them: show zerotier zt0 identity all",
        ]
        router.wait(lambda r=router: paths_up(r) == 3, what="3 paths up")
    reach(r1, loopback(r1), loopback(r2))
    lan1.reach(lan2.address)
    lan2.reach(lan1.address)
    trace = lan1.run(["ping", "-c1", "-W2", "-t1", lan2.address], check=False).stdout  # the first hop is R1
    assert f"From {lan1.gateway}" in trace, trace


def test_more_is_printed_on_request(sites: tuple[list[Router], list[Lan]]) -> None:
    (r1, _r2), (lan1, _lan2) = sites
    text = show_identity(r1, 3, "--everything")
    told = {line.split()[-1].rpartition(":")[0] for line in text.splitlines() if " endpoint " in line}
    assert {lan1.gateway, f"[{lan1.gateway6}]", r1.underlay4} <= told and "10.14.0.1" not in text and "10.99.0.1" not in text
    data = r1.json(["/usr/libexec/vyos/op_mode/zerotier.py", "show_identity", "--raw", "--bundle", "zt0"])
    assert {item["address"] for item in data["instances"][0]["left_out"]} == {lan1.gateway, lan1.gateway6}
    assert all(entry["endpoints"] and entry["answers"] for entry in data["instances"])


def test_an_underlay_inside_prefixes_of_the_remote(sites: tuple[list[Router], list[Lan]]) -> None:
    """R2's endpoint as a prefix of R2, and R1's own address in a wider one: instances begin and find each other all the same."""
    (r1, r2), _lans = sites
    remote = "set interfaces zerotier zt0 remote R2 prefix"
    wide = f"{remote} 198.51.0.0/16\n{remote} {r2.underlay4}/32"
    r1.must_configure(wide)
    found = r1.json(["ip", "-j", "route", "get", r2.underlay4])
    r1.wait(lambda: r1.json(["ip", "-j", "route", "get", r2.underlay4])[0]["dev"].startswith("zt0p"), what=f"not {found}")
    r1.run(["ip", "-6", "address", "flush", "dev", "eth0", "scope", "global"])  # so that only IPv4 is left
    index = r1.read("/sys/class/net/zt0p1/ifindex")
    r1.run(["systemctl", "restart", "zerotier-multi@zt0-1"])
    r1.wait(lambda: r1.run(["cat", "/sys/class/net/zt0p1/ifindex"], check=False).stdout not in ("", index), what="a new zt0p1")
    r1.wait(lambda: paths_up(r1) == 3, timeout=40, what="3 paths up")
    show_identity(r1, 3)  # it listens
    reach(r1, loopback(r1), r2.underlay4)
    r1.must_configure(wide.replace("set ", "delete "))
    r1.run(["ip", "address", "add", f"{r1.underlay6}/64", "dev", "eth0", "nodad"])
    r1.run(["ip", "route", "replace", "default", "via", f"{PREFIX6}fe"])


def test_the_example_for_two_ms01(sites: tuple[list[Router], list[Lan]]) -> None:
    (r1, r2), (lan1, lan2) = sites
    for router, lines in zip((r1, r2), examples(MS01), strict=True):
        router.must_configure("delete interfaces zerotier")
        router.must_configure(engine() + lines)
    count = int(r1.json(["jq", ".instances | length", "/run/zerotier-multi/zt0.json"]))  # these have other cores than an MS-01
    exchange([r1, r2], count)
    for router in (r1, r2):
        router.wait(lambda r=router: paths_up(r) == count, what=f"{count} paths up")
    lan1.reach(lan2.address)
    lan2.reach(lan1.address)
