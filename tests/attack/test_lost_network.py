"""An instance that is off its network, by its own API or by its home, is put right by zerotier-pathd alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import Router
from lab.flows import Flows
from lab.scenario import NETWORK, paths_up, wait_paths

HOME = "/config/zerotier-multi/zt0/1"
MARKER = f"{HOME}/networks.d/{NETWORK}.conf"
PATHS = 8  # two remotes, two instances, both families
BACK = 25.0  # seconds: three until the loss counts, the start, the first probes; the rest is the machine's


def request(router: Router, method: str) -> None:
    """As somebody with the token would."""
    program = (
        "import http.client, pathlib\n"
        f"home = pathlib.Path({HOME!r}); port = int((home / 'zerotier-one.port').read_text())\n"
        "c = http.client.HTTPConnection('127.0.0.1', port, timeout=5)\n"
        f"c.request({method!r}, '/network/{NETWORK}', b'{{}}', {{'X-ZT1-Auth': (home / 'authtoken.secret').read_text().strip()}})\n"
        "print(c.getresponse().status)"
    )
    assert router.run(["/usr/bin/python3", "-c", program]).stdout.strip() == "200"


def deleted(router: Router) -> None:
    """The network is left."""
    request(router, "DELETE")


def deleted_and_joined(router: Router) -> None:
    """The network is left and joined again, so that the device is there, but without the plan's configuration."""
    request(router, "DELETE")
    request(router, "POST")


def emptied(router: Router) -> None:
    """networks.d is emptied, and the process killed: systemd starts it without a network."""
    router.run(["sh", "-c", f"rm {HOME}/networks.d/*"])
    router.run(["systemctl", "kill", "--signal=KILL", "zerotier-multi@zt0-1"])


def revivals(router: Router) -> list[str]:
    lines = router.run(["journalctl", "-t", "zerotier-pathd", "ZEROTIER_EVENT=instance-revived", "-o", "cat"], check=False).stdout
    return lines.splitlines()


@pytest.fixture
def flows(trio: list[Router]) -> Iterator[Flows]:
    made = Flows(*trio[:2], 16)
    yield made
    made.kill()


@pytest.mark.parametrize("lose", [deleted, deleted_and_joined, emptied], ids=lambda lose: lose.__name__)
def test_it_is_back_after_one_restart(trio: list[Router], flows: Flows, lose: object) -> None:
    first = trio[0]
    wait_paths(trio, PATHS)
    content, before = first.read(MARKER), len(revivals(first))
    pid = first.run(["systemctl", "show", "-P", "MainPID", "zerotier-multi@zt0-2"]).stdout
    lose(first)  # type: ignore[operator]
    first.wait(lambda: paths_up(first) == PATHS // 2, what="the fall of the paths of instance 1")
    wait_paths(trio, PATHS, timeout=BACK)
    assert first.read(MARKER) == content
    told = revivals(first)[before:]
    assert len(told) == 1 and "zt0/1" in told[0] and f"networks.d/{NETWORK}.conf in its home did not match the plan" in told[0], (
        told
    )
    assert first.run(["systemctl", "show", "-P", "MainPID", "zerotier-multi@zt0-2"]).stdout == pid
    seen = flows.end()
    others = [flow for flow, way in zip(seen, flows.devices, strict=True) if way == ("zt0p2", "zt0p2")]
    assert others and sum(flow.lost for flow in others) == 0, [flow.missing for flow in others]
