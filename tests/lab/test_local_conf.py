"""Every setting of local.conf, from the CLI to the API of a running zerotier-one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.lab.conftest import packages, programs
from tests.unit.test_settings import line_of
from zerotier_multi.settings import ANY, SETTINGS

from lab import Lab, Router

ZT = "set interfaces zerotier zt0"
# What cannot go with the others: port mapping is on here, and TCP relays and bonding exclude each other.
APART = {"disable-port-mapping", "disable-secondary-port", "force-tcp-relay"}
FURTHER = """tertiary port 65431
cpu affinity none
custom-policy fast base-policy active-backup
custom-policy fast links eth0 mode primary
custom-policy fast links eth1 mode primary
custom-policy fast link-quality latency-weight 0.25
custom-policy fast link-quality variance-weight 0.75
"""
READ_STATUS = """
import json, sys
from pathlib import Path
from zerotier_multi.ztapi import ZeroTierApi
print(json.dumps([ZeroTierApi(Path(f"/config/zerotier-multi/zt0/{k}"), 9992 + k).status()["config"] for k in (1, 2)]))
"""

pytestmark = pytest.mark.both_engines


def lines() -> str:
    """All settings in one configuration: the rows' samples, then what goes with them."""
    rows = [line_of(row) for row in SETTINGS if row.path not in APART and row.path != "tertiary port"]
    rows = [
        row
        for row in rows
        if not row.startswith(("custom-policy fast base", "custom-policy fast link-quality", "custom-policy fast links eth0 mode"))
    ]
    return "\n".join(f"{ZT} {row}" for row in [*rows, *FURTHER.splitlines()])


@pytest.fixture(scope="module")
def router() -> Iterator[Router]:
    with Lab(packages(), programs=programs("zerotier-one")) as lab:
        (made,) = lab.add_routers(["R1"])
        made.must_configure(
            f"{ZT} instances 2\n{ZT} network-id 8056c2e21c000001\n{ZT} transit prefix 10.14.0.0/28\n{ZT} transit site 1\n"
            f"{ZT} address 10.0.55.1/32\n{ZT} remote R2 prefix 10.0.55.2/32\n{ZT} engine zerotier-one"
        )
        yield made


def configs(router: Router) -> list[dict[str, Any]]:
    """What each of the two instances says it works with."""

    def look() -> list[dict[str, Any]] | None:
        answer = router.run(["/usr/bin/python3", "-c", READ_STATUS], check=False)
        return json.loads(answer.stdout) if answer.returncode == 0 else None

    return list(router.wait(look, what="the API of both instances"))


def at(config: dict[str, Any], key: tuple[str, ...]) -> list[Any]:
    """The values at a key; a part that may be any name has those of all names."""
    level: list[Any] = [config]
    for part in key:
        level = [value for one in level if isinstance(one, dict) for name, value in one.items() if part in (name, ANY)]
    return level


def test_the_engine_works_with_each_setting(router: Router) -> None:
    router.must_configure(lines())
    first, second = configs(router)
    lacking = [row.path for row in SETTINGS if row.path not in APART and not at(first, row.key)]
    assert lacking == []
    assert first["settings"]["secondaryPort"] + 1 == second["settings"]["secondaryPort"] == 65436
    assert any(address.endswith("/65435") for address in first["settings"]["listeningOn"]), first["settings"]["listeningOn"]
    assert first["settings"]["policies"]["fast"]["linkQuality"]["pdv_weight"] == 0.75
    assert first["virtual"]["0123456789"] == {"blacklist": ["192.0.2.0/24"], "try": ["192.0.2.1/9993"]}
    assert first["physical"]["192.0.2.0/24"] == {"blacklist": True, "mtu": 9000, "trustedPathId": 4294967295}
    assert first["physical"]["10.14.0.0/28"] == {"blacklist": True}


def test_a_relay_by_tcp_alone(router: Router) -> None:
    router.must_configure(
        f"delete interfaces zerotier zt0 bonding-policy\ndelete interfaces zerotier zt0 peer-specific-bonds\n{ZT} force-tcp-relay"
    )
    router.wait(
        lambda: all(config["settings"]["forceTcpRelay"] for config in configs(router)),
        timeout=40.0,
        what="instances that read their local.conf again",
    )


def test_without_them_each_instance_has_what_it_needs(router: Router) -> None:
    gone = {"disable-port-mapping", "disable-secondary-port", "bonding-policy", "peer-specific-bonds"}  # not set, or deleted before
    words = sorted({line_of(row).split()[0] for row in SETTINGS} - gone)
    router.must_configure("\n".join(f"delete interfaces zerotier zt0 {word}" for word in words))
    for config in configs(router):
        settings = config["settings"]
        assert settings["allowSecondaryPort"] is False and settings["portMappingEnabled"] is False
        assert "policies" not in settings and config["virtual"] == {}
