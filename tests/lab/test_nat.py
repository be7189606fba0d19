"""Two routers behind a NAT each and a third with a public address: direct where the NATs allow it, else by way of it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from lab import Router
from lab.nat import Nat
from lab.scenario import IDENTITY, example, identity_lines, loopback, reach, wait_paths
from tests.lab.conftest import ENGINE, new_lab


@pytest.fixture(scope="module")
def sites() -> Iterator[tuple[list[Router], list[Nat]]]:
    """R1 and R2 know each other by identity alone, and where R3 is; R3 knows where R2's NAT is, and not R1's."""
    with new_lab() as lab:
        routers = lab.add_routers(["R1", "R2", "R3"])
        nats = [Nat(lab.underlay, number) for number in (11, 12)]
        try:
            for router, nat in zip(routers, nats, strict=False):
                nat.attach(router)
            for router in routers:
                others = [r for r in routers if r is not router]
                router.must_configure(example(router, others, 1, subnet_lengths=(29,), engine=ENGINE.rpartition("/")[2]))
            lines = {r.name: identity_lines(r, 1, endpoints="") for r in routers}
            public = f"set interfaces zerotier zt0 remote R3 instance 1 endpoint {routers[2].underlay4}:9993\n"
            at_r3 = f"set interfaces zerotier zt0 remote R2 instance 1 endpoint {nats[1].address}:9993\n"
            for router in routers:
                known = "".join(text for name, text in lines.items() if name != router.name)
                router.must_configure(known + (at_r3 if router.name == "R3" else public))
            yield routers, nats
        finally:
            for nat in nats:
                nat.close()


# Seconds until a remote without a direct path is reached by way of the third: zerotier-one holds on to the one that is gone.
RELAYED = 5 if ENGINE.rpartition("/")[2] == "ztnode" else 30


def link_to(router: Router, remote: str) -> tuple[str, str | None, str | None]:
    """What ``show zerotier zt0 paths`` says of the way to a remote: link, who relays, underlay address."""
    shown = router.json([IDENTITY, "show_paths", "--bundle", "zt0", "--raw"])
    (path,) = [p for p in shown["paths"] if p["remote"] == remote]
    return path["link"], path["relay"], path["underlay_address"]


def silence(router: Router, source: str, target: str, seconds: float) -> float:
    """Longest time without an answer to echo requests every 100 ms."""
    done = router.run(["ping", "-D", "-i", "0.1", "-w", str(int(seconds)), "-I", source, target], check=False).stdout
    seen = [float(line[1:].partition("]")[0]) for line in done.splitlines() if "bytes from" in line]
    assert len(seen) > 1 and seen[-1] > seen[0], done[-500:]
    return max(y - x for x, y in zip(seen, [*seen[1:], time.time()], strict=True))


def test_a_direct_path_is_punched_through_two_nats(sites: tuple[list[Router], list[Nat]]) -> None:
    routers, nats = sites
    wait_paths(routers, 2, timeout=30)
    r1, r2, _r3 = routers
    for router, other, nat in ((r1, r2, nats[1]), (r2, r1, nats[0])):
        reach(router, loopback(router), loopback(other))

        def direct(router: Router = router, other: Router = other, nat: Nat = nat) -> bool:
            link, _relay, address = link_to(router, other.name)
            return link == "direct" and (address or "").startswith(f"{nat.address}:")

        router.wait(direct, timeout=60, what=f"a direct path to {other.name} through {nat.address}")


def test_where_the_nats_allow_no_direct_path_it_goes_by_way_of_the_third(sites: tuple[list[Router], list[Nat]]) -> None:
    """The mappings go while the link is in use: traffic is back in seconds, by way of R3, and ``show`` says so."""
    (r1, r2, _r3), nats = sites
    for nat in nats:
        nat.become("symmetric")
        nat.forget()
    assert silence(r1, loopback(r1), loopback(r2), RELAYED + 3) < RELAYED
    for router, other in ((r1, r2), (r2, r1)):
        router.wait(lambda r=router, o=other: link_to(r, o.name)[:2] == ("relayed", "R3"), timeout=30, what="via R3")
        text = router.run([IDENTITY, "show_paths", "--bundle", "zt0"]).stdout
        assert "via R3" in text, text


def test_a_mapping_that_is_forgotten_costs_seconds(sites: tuple[list[Router], list[Nat]]) -> None:
    (r1, _r2, r3), nats = sites
    nats[0].forget()
    assert silence(r1, loopback(r1), loopback(r3), 6) < 5
