"""What ``generate zerotier import`` prints is committed as it is, and the nodes stay those that they were."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from lab import Lab, Router
from lab.scenario import IDENTITY, NETWORK, loopback, paths_up, reach
from tests.lab.conftest import ENGINE, new_lab

HOMES = "/config/containers/zerotier"
CONTAINER = """\
set container name {name} image 'docker.io/zerotier/zerotier:latest'
set container name {name} allow-host-networks
set container name {name} capability 'net-admin'
set container name {name} device tun source '/dev/net/tun'
set container name {name} device tun destination '/dev/net/tun'
set container name {name} arguments '{network}'
set container name {name} volume home source '{home}'
set container name {name} volume home destination '/var/lib/zerotier-one'
"""
OPENWRT = """
config zerotier 'global'
	option enabled '1'
	option port '9994'
	option config_path '{home}'

config network 'office'
	option id '{network}'
	option allow_managed '1'
	option allow_dns '0'
"""
# Its tree, in the form in which VyOS saves it.
NATIVE = """
interfaces {{
    zerotier zt0 {{
        bonding-policy fast
        custom-policy fast {{
            base-policy active-backup
            failover-interval 500
            links eth0 {{
                mode primary
            }}
        }}
        disable-tcp-fallback
        network-config 192.0.2.0/24 {{
            blacklist
        }}
        network-id {network}
        peer-config 0123456789 {{
            try 192.0.2.9/9993
        }}
        primary {{
            port 9993
        }}
    }}
}}
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with new_lab() as made:
        made.add_routers(["R1", "R2"])
        yield made


def old_home(router: Router, path: str, port: int) -> str:
    """A home as zerotier-one leaves it; returns its node."""
    made = router.json([IDENTITY, "generate_identity", "--raw"])
    router.run(["mkdir", "-p", f"{path}/networks.d"])
    router.write(f"{path}/identity.secret", made["secret"], 0o600)
    router.write(f"{path}/identity.public", made["public"])
    router.write(f"{path}/networks.d/{NETWORK}.conf", "")
    router.write(f"{path}/local.conf", json.dumps({"settings": {"primaryPort": port, "allowSecondaryPort": False}}))
    return str(made["node"])


def imported(router: Router, path: str) -> str:
    """The lines that are printed; identities are copied as they say."""
    lines = router.run(["ztsh", "generate", "zerotier", "import", path]).stdout
    for command in re.findall(r"before the first commit: sudo (sh .*)$", lines, re.MULTILINE):
        if router.run(["test", "-e", command.split()[-2]], check=False).returncode == 0:
            router.run(["sh", "-c", command])
    return lines


def apply(router: Router, lines: str) -> None:
    """The whole bundle, by the file that a person would make of the lines."""
    router.run(["ztsh", "apply", "-"], text_input=f"delete interfaces zerotier\n{lines}")


def still_to_set(router: Router) -> str:
    other = 3 - router.number
    base = "set interfaces zerotier zt0"
    return (
        f"{base} controller-free\n{base} transit prefix 10.14.0.0/28\n{base} transit site {router.number}\n"
        f"{base} address {loopback(router)}/32\n{base} remote R{other} prefix 10.0.55.{other}/32\n{base} engine {ENGINE.rpartition('/')[2]}\n"
    )


def nodes(router: Router) -> list[str]:
    shown = router.json([IDENTITY, "show_identity", "--bundle", "zt0", "--raw"])
    return [entry["identity"].partition(":")[0] for entry in shown["instances"]]


def test_containers_become_instances_that_keep_their_nodes_and_carry_traffic(lab: Lab) -> None:
    routers = list(lab.routers.values())
    bundles = {}
    for router in routers:
        old = [old_home(router, f"{HOMES}/zt{k}", 9993 + k) for k in (0, 1)]
        text = "".join(CONTAINER.format(name=f"zt{k}", home=f"{HOMES}/zt{k}", network=NETWORK) for k in (0, 1))
        router.write("/config/old.commands", text)
        bundles[router.name] = imported(router, "/config/old.commands") + still_to_set(router)
        apply(router, bundles[router.name])
        assert nodes(router) == old
    for router, other in (routers, routers[::-1]):
        identity = other.run(["ztsh", "show", "zerotier", "zt0", "identity", "all"]).stdout
        router.wait(lambda r=router: len(nodes(r)) == 2, what="two nodes")
        endpoints = f"set interfaces zerotier zt0 remote {other.name} instance 1 endpoint {other.underlay4}:9993\n"
        apply(router, bundles[router.name] + identity + endpoints)
    for router, other in (routers, routers[::-1]):
        router.wait(lambda r=router: paths_up(r) == 2, what="2 paths up")
        reach(router, loopback(router), loopback(other))


def test_openwrt_s_network_is_committed(lab: Lab) -> None:
    router = lab.routers["R1"]
    node = old_home(router, "/etc/zerotier", 9994)
    router.write("/config/zerotier", OPENWRT.format(home="/etc/zerotier", network=NETWORK))
    # The first test's home is that of another node.
    router.must_configure("delete interfaces zerotier")
    router.run(["rm", "-r", "/config/zerotier-multi/zt0"])
    apply(router, imported(router, "/config/zerotier") + still_to_set(router))
    assert nodes(router) == [node]
    assert "set interfaces zerotier zt0 primary port '9994'" in router.run(["ztsh", "config", "commands"]).stdout


def test_the_native_configuration_of_another_tree_is_committed(lab: Lab) -> None:
    """Its bonding policy needs zerotier-one, which the sentence says where it is not installed."""
    router = lab.routers["R1"]
    router.write("/config/native.boot", NATIVE.format(network=NETWORK))
    # Its zt0 keeps its name where the router has none, and no identities of one.
    apply(router, "")
    router.run(["rm", "-rf", "/config/zerotier-multi/zt0"])
    lines = imported(router, "/config/native.boot") + still_to_set(router)
    own = [line for line in lines.splitlines() if "policy" not in line]
    apply(router, "\n".join(own) + "\n")
    conf = json.loads(router.read("/config/zerotier-multi/zt0/1/local.conf"))
    assert conf["physical"]["192.0.2.0/24"] == {"blacklist": True}
    assert conf["virtual"]["0123456789"] == {"try": ["192.0.2.9/9993"]}
    done = router.run(["ztsh", "apply", "--check", "-"], text_input=lines, check=False)
    if ENGINE == "ztnode":
        assert done.returncode == 1 and "bonding-policy" in done.stderr, done.stderr
    else:
        assert done.returncode == 2 and "custom-policy" in done.stdout, done.stderr
