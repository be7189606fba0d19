"""Bad input as a table: what is configured, and the exact sentence that refuses it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.configuration import EXAMPLE, bundle, configured
from zerotier_multi import box, systemd
from zerotier_multi import facts as box_facts
from zerotier_multi.box_checks import BoxFacts, check_on_box, tolerable, warnings
from zerotier_multi.bundle_parser import parse_bundle
from zerotier_multi.checks import check_bundle, check_together
from zerotier_multi.cpu import Cpu
from zerotier_multi.errors import ConfigProblems
from zerotier_multi.netlink.links import Link
from zerotier_multi.names import DEVICE_GROUP
from zerotier_multi.planner import make_plan

GK41 = tuple(Cpu(n, n) for n in range(4))
BOX = BoxFacts(GK41, {"ztnode": "/usr/sbin/ztnode"})
KEY = "ab" * 64
P = "interfaces zerotier zt0"


def without(word: str) -> str:
    return "\n".join(line for line in EXAMPLE.splitlines() if not line.startswith(word))


ONE = EXAMPLE.replace("instances 4", "instances 1")
POLICY = "custom-policy fast base-policy active-backup\n"
ALONE = [
    ("a secondary port that is another's", EXAMPLE + "secondary port 9996",
     f"{P} secondary port 9996: instance zt0/1 would use port 9996, as instance zt0/4 does; change one of the two ports"),
    ("a secondary port beyond the last", EXAMPLE + "secondary port 65533",
     f"{P} secondary port 65533: instance 4 would need port 65536, above 65535; set 65532 or lower, or run fewer instances"),
    ("a secondary port that is switched off", EXAMPLE + "secondary port 20000\ndisable-secondary-port",
     f"{P} disable-secondary-port conflicts with secondary port; delete one of them"),
    ("port mapping off and on", EXAMPLE + "disable-port-mapping\nenable-port-mapping",
     f"{P} disable-port-mapping conflicts with enable-port-mapping; delete one of them"),
    ("a port for mapping that is another's", EXAMPLE + "enable-port-mapping\ninstance 2 port 19993",
     f"{P} enable-port-mapping: instance zt0/1 would use port 19993, as instance zt0/2 does; change one of the two ports"),
    ("a tertiary port for nothing", EXAMPLE + "tertiary port 20000",
     f"{P} tertiary port is for port mapping; set enable-port-mapping or delete it"),
    ("more prefixes than an engine keeps", EXAMPLE + "".join(f"network-config 198.51.{n}.0/24 mtu 1400\n" for n in range(33)),
     f"{P} network-config has 33 prefixes with an mtu or a trusted-path, of which an engine keeps 32; delete some or use larger ones"),
    ("threads without their switch", EXAMPLE + "multicore-options core-count 4",
     f"{P} multicore-options core-count requires several threads; set multicore-options enabled"),
    ("threads that are pinned twice", EXAMPLE + "multicore-options enabled\nmulticore-options cpu-pinning",
     f"{P} multicore-options cpu-pinning conflicts with pinned instances, because zerotier-one ends where it cannot pin its threads "
     "to the first CPUs; set cpu affinity none and delete instance K cpu"),
    ("a policy that there is not", EXAMPLE + "bonding-policy quick",
     f"{P} bonding-policy quick is neither a built-in nor a configured policy; set a custom-policy of this name or one of none, "
     "active-backup, broadcast, balance-rr, balance-xor, balance-aware"),
    ("a policy that another has the name of", EXAMPLE + POLICY.replace("fast", "broadcast"),
     f"{P} custom-policy broadcast has the name of a built-in policy; choose another name"),
    ("a policy that is based on nothing", EXAMPLE + "custom-policy fast up-delay 100",
     f"{P} custom-policy fast base-policy is missing; set the policy that this one is based on"),
    ("weights that are not one", EXAMPLE + POLICY + "custom-policy fast link-quality latency-weight 0.3\ncustom-policy fast link-quality variance-weight 0.3",
     f"{P} custom-policy fast link-quality has weights with the sum 0.6; make it 1, or set only one of them"),
    ("a spare with a spare", EXAMPLE + POLICY + "custom-policy fast links eth0 failover-to eth1\ncustom-policy fast links eth1 mode spare",
     f"{P} custom-policy fast links eth0 failover-to eth1 is for primary links; set mode primary or delete it"),
    ("a spare that is no link", EXAMPLE + POLICY + "custom-policy fast links eth0 mode primary\ncustom-policy fast links eth0 failover-to eth1",
     f"{P} custom-policy fast links eth0 failover-to eth1 is not another link of this policy; set one of them"),
    ("bonding by way of TCP", EXAMPLE + "bonding-policy broadcast\nforce-tcp-relay",
     f"{P} force-tcp-relay conflicts with bonding, which needs UDP; delete one of them"),
    ("a further network of several instances", EXAMPLE + "network-id 8056c2e21c000002",
     f"{P} network-id 8056c2e21c000002 is a further network, which only a bundle of one instance can join, but there are 4; "
     "delete the network-id that it replaces (8056c2e21c000001), or set instance K network-id"),
    ("a further network without a controller", ONE + "network-id 8056c2e21c000002\ncontroller-free",
     f"{P} network-id 8056c2e21c000002 is a further network, which needs a controller; keep one network-id in controller-free mode"),
    ("several networks and one of the instance's own", ONE + "network-id 8056c2e21c000002\ninstance 1 network-id 8056c2e21c000003",
     f"{P} instance 1 network-id 8056c2e21c000003 conflicts with several network-id; delete it"),
    ("two networks with one device name", ONE + "network-id 8056c2e21c000002\nnetwork-id 9056c2e21c000002",
     f"{P} network-id 9056c2e21c000002 would have device zt0n1c000002, as 8056c2e21c000002 has; put one of them on another bundle"),
    ("too many networks", ONE + "".join(f"network-id 8056c2e21c0001{n:02x}\n" for n in range(64)),
     f"{P} network-id 8056c2e21c000100 is one of 65 networks, more than 64; delete some"),
    ("a network that is not joined", EXAMPLE + "network 8056c2e21c000009 allow-managed",
     f"{P} network 8056c2e21c000009 is a network of no instance; set network-id 8056c2e21c000009 or delete it"),
    ("managed by no controller", ONE + "controller-free\nnetwork 8056c2e21c000001 allow-managed",
     f"{P} network 8056c2e21c000001 allow-managed needs a controller, which controller-free mode has not; delete one of them"),
    ("managed in a VRF", EXAMPLE + "vrf red\nnetwork 8056c2e21c000001 allow-managed",
     f"{P} network 8056c2e21c000001 allow-managed conflicts with vrf red, because the engine puts the routes of a controller into "
     "the main table; delete one of them"),
    ("a default route that nobody manages", EXAMPLE + "network 8056c2e21c000001 allow-default",
     f"{P} network 8056c2e21c000001 allow-default is for what a controller manages; set allow-managed too"),
    ("public addresses that nobody manages", EXAMPLE + "network 8056C2E21C000001 allow-global",
     f"{P} network 8056c2e21c000001 allow-global is for what a controller manages; set allow-managed too"),
    ("one address for four devices", EXAMPLE + "network 8056c2e21c000001 address 10.147.17.5/24",
     f"{P} network 8056c2e21c000001 address 10.147.17.5/24 would be on 4 instances; use transit prefix, which gives each "
     "instance its own"),
    ("an address twice", ONE + "network 8056c2e21c000001 address 10.0.55.1/24",
     f"{P} network 8056c2e21c000001 address 10.0.55.1/24 is also address 10.0.55.1/32; keep it in one place"),
    ("an address in the transit", ONE + "network 8056c2e21c000001 address 10.14.0.9/24",
     f"{P} network 8056c2e21c000001 address 10.14.0.9/24 overlaps transit prefix 10.14.0.0/28; use another address"),
    ("no network id", without("network-id"),
     f"{P} network-id is missing; set the 16 hexadecimal digits of the network"),
    ("no network id for one instance", without("network-id") + "\n" + "".join(f"\ninstance {k} network-id 8056c2e21c000001" for k in (1, 2, 4)),
     f"{P} instance 3 network-id is missing; set it here or for the whole bundle"),
    ("two instances on one port", EXAMPLE + "instance 3 port 9994",
     f"{P} instance 3 port 9994: instance zt0/3 would use port 9994, as instance zt0/2 does; change one of the two ports"),
    ("transit too small", EXAMPLE.replace("/28", "/29"),
     f"{P} transit prefix 10.14.0.0/29 has room for 2 subnets of /30 but there are 4 instances; use a /28 or larger"),
    ("IPv6 transit too small", EXAMPLE + "transit prefix 2001:db8:14::/125",
     f"{P} transit prefix 2001:db8:14::/125 has room for 2 subnets of /126 but there are 4 instances; use a /124 or larger"),
    ("site outside the subnet", EXAMPLE.replace("site 1", "site 3") + "remote R2 site 1",
     f"{P} transit site 3: a /30 has only hosts 1 to 2; choose one of these or a shorter subnet-length"),
    ("site of a remote outside the subnet", EXAMPLE + "remote R2 site 3",
     f"{P} remote R2 site 3: a /30 has only hosts 1 to 2; use a shorter subnet-length"),
    ("no site", without("transit site"),
     f"{P} transit site is missing; set this router's host number in every transit subnet"),
    ("remote without transit", without("transit"),
     f"{P} transit prefix is missing; set it, because remotes are reached through it"),
    ("two IPv4 transit prefixes", EXAMPLE + "transit prefix 10.15.0.0/28",
     f"{P} transit prefix: there are 2 IPv4 prefixes; keep one"),
    ("remote with our own site", EXAMPLE + "remote R2 site 1",
     f"{P} remote R2 site 1 is the site of this router; set the number of the remote"),
    ("remote whose site is not known", EXAMPLE.replace("/28", "/24") + "transit subnet-length 28",
     f"{P} remote R2 site is missing; it can be inferred only in a two-host transit subnet"),
    ("two remotes on one site", EXAMPLE + "remote R3 prefix 192.0.2.0/24",
     f"{P} remote R3 site 2 is also the site of remote R2; give each router its own number, or delete one of the two names"),
    ("one prefix at two remotes", EXAMPLE.replace("/28", "/26") + "transit subnet-length 28\nremote R2 site 2\nremote R3 site 3\nremote R3 prefix 10.0.55.2/32",
     f"{P} remote R3 prefix 10.0.55.2/32 is also a prefix of remote R2; keep it at one of them, or use a shorter prefix for the one that is a backup"),
    ("all destinations at two remotes", EXAMPLE.replace("/28", "/26") + "transit subnet-length 28\nremote R2 site 2\nremote R2 prefix 0.0.0.0/0\nremote R3 site 3\n"
     "remote R3 prefix 0.0.0.0/0",
     f"{P} remote R3 prefix 0.0.0.0/0 is also a prefix of remote R2; keep it at one of them"),
    ("IPv6 prefix without IPv6 transit", EXAMPLE + "remote R2 prefix 2001:db8:2::/48",
     f"{P} remote R2 prefix 2001:db8:2::/48 needs IPv6 transit; add an IPv6 transit prefix, such as a /120"),
    ("prefix inside the transit", EXAMPLE + "remote R2 prefix 10.14.0.8/30",
     f"{P} remote R2 prefix 10.14.0.8/30 is inside transit prefix 10.14.0.0/28; use another prefix"),
    ("endpoint inside the transit", EXAMPLE + "controller-free\nremote R2 instance 1 endpoint 10.14.0.2:9993",
     f"{P} remote R2 instance 1 endpoint 10.14.0.2:9993 is inside transit prefix 10.14.0.0/28 of this bundle; give an address that R2 has on the underlay"),
    ("endpoint that is our own loopback", EXAMPLE + "controller-free\nremote R2 instance 1 endpoint 10.0.55.1:9993",
     f"{P} remote R2 instance 1 endpoint 10.0.55.1:9993 is inside address 10.0.55.1/32 of this bundle; give an address that R2 has on the underlay"),
    ("more instances than ports left", EXAMPLE + "primary port 65534",
     f"{P} primary port 65534: instance 4 would need port 65537, above 65535; set 65532 or lower, or run fewer instances"),
    ("endpoint with a controller", EXAMPLE + "remote R2 instance 1 endpoint 198.51.100.2:9993",
     f"{P} remote R2 instance 1 endpoint requires controller-free mode; set controller-free or delete the endpoint"),
    ("ad-hoc network", EXAMPLE.replace("8056c2e21c000001", "ff00160016000000") + "controller-free",
     f"{P} network-id ff00160016000000 is an ad-hoc network (it begins with ff), which anybody can join; choose another"),
    ("one identity twice", EXAMPLE + f"controller-free\nremote R2 instance 1 identity 89e92ceee5:0:{KEY}\nremote R2 instance 2 identity 89e92ceee5:0:{KEY}",
     f"{P} remote R2 instance 2 identity 89e92ceee5 is the identity of R2 instance 1; give each instance its own identity"),
    ("a remote that would be the controller", EXAMPLE + f"controller-free\nremote R2 instance 1 identity 8056c2e21c:0:{KEY}",
     f"{P} remote R2 instance 1 identity 8056c2e21c would be the controller of network 8056c2e21c000001; choose another network-id"),
    ("too many controller-free remotes", without("remote").replace("/28", "/22") + "\ncontroller-free\ntransit subnet-length 24\n" + "\n".join(f"remote R{k} site {k}\nremote R{k} prefix 192.0.2.{k}/32" for k in range(2, 34)),
     f"{P} remote: controller-free mode has at most 31 remotes but there are 32; use a second bundle or a controller"),
    ("too many endpoints", EXAMPLE + "controller-free\n" + "\n".join(f"remote R2 instance 1 endpoint 198.51.100.2:{k}" for k in range(1, 34)),
     f"{P} remote R2 instance 1 endpoint has 33 values, more than 32; delete some"),
    ("a VRF with the name of the bundle", EXAMPLE + "vrf zt0",
     f"{P} vrf zt0 is a device name of bundles; choose a VRF name other than ztN and ztNpK"),
    ("a VRF with the name of a member", EXAMPLE + "vrf zt12p3",
     f"{P} vrf zt12p3 is a device name of bundles; choose a VRF name other than ztN and ztNpK"),
    ("a fixed weight where weights are measured", EXAMPLE + "balance weights auto\ninstance 2 weight 3",
     f"{P} balance weights auto conflicts with instance 2 weight 3; delete that weight or set balance weights static"),
    ("backups alone", EXAMPLE + "instances 2\ninstance 1 backup\ninstance 2 backup",
     f"{P} instance 1 backup is of no use where every instance is a backup; delete it, or run one more instance"),
    ("a backup without probes", EXAMPLE + "instance 2 backup\nhealth-check disable",
     f"{P} instance 2 backup needs the probes, which notice that other paths fail; delete health-check disable or this backup"),
    ("an uplink that is a member", EXAMPLE + "instance 2 source-interface zt1p2",
     f"{P} instance 2 source-interface zt1p2 is a device of a bundle and cannot be an uplink; set an interface such as eth1"),
    ("an uplink that is a tunnel", EXAMPLE + "instance 2 source-interface wg0",
     f"{P} instance 2 source-interface wg0 is a tunnel or loopback device and cannot be an uplink; set an interface such as eth1"),
    ("a gateway without its interface", EXAMPLE + "instance 2 gateway 198.51.100.254",
     f"{P} instance 2 gateway 198.51.100.254 requires an uplink; set source-interface"),
    ("two gateways of a family", EXAMPLE + "instance 2 source-interface eth1\n" + "\n".join(f"instance 2 gateway 198.51.100.{n}" for n in (1, 2)),
     f"{P} instance 2 gateway 198.51.100.2 conflicts with 198.51.100.1; keep one IPv4 gateway"),
    ("every instance disabled", EXAMPLE.replace("instances 4", "instances 1") + "instance 1 disable",
     f"{P} instance: every instance is disabled; disable the bundle instead"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sentence"), [case[1:] for case in ALONE], ids=[case[0] for case in ALONE])
def test_a_bundle_by_itself(text: str, sentence: str) -> None:
    bundle = parse_bundle("zt0", configured(text)["zt0"])
    assert [str(p) for p in check_bundle(bundle, GK41)] == [sentence]


def test_the_example_is_good() -> None:
    bundle = parse_bundle("zt0", configured(EXAMPLE)["zt0"])
    assert check_bundle(bundle, GK41) == [] and check_on_box(bundle, BOX) == []


FREE = "controller-free\n"
MANY = without("remote").replace("/28", "/22") + "\ntransit subnet-length 24\n"
GOOD = [
    ("as many prefixes as an engine keeps, and others", "".join(f"network-config 198.51.{n}.0/24 mtu 1400\n" for n in range(32))
     + "network-config 203.0.113.0/24 blacklist\nnetwork-config 198.51.1.0/24 trusted-path 7"),
    ("one of two switches", "disable-port-mapping\ndisable-secondary-port"),
    ("the other of two switches", "enable-port-mapping\ntertiary port 20000\nsecondary port 21000"),
    ("threads of instances that are not pinned", "cpu affinity none\nmulticore-options enabled\nmulticore-options cpu-pinning"),
    ("threads of instances that are pinned", "multicore-options enabled\nmulticore-options core-count 4"),
    ("weights that are measured", "balance weights auto"),
    ("the last ports there are", "primary port 65532"),
    ("the last site of a subnet", "transit subnet-length 29\nremote R2 site 6"),
    ("the last site of a subnet for this router", "transit subnet-length 29\ntransit site 6\nremote R2 site 1"),
    ("IPv6 over its own transit", "transit prefix 2001:db8:14::/124\nremote R2 prefix 2001:db8:2::/48"),
    ("as many endpoints as an engine takes", FREE + "".join(f"remote R2 instance 1 endpoint 198.51.100.2:{k}\n" for k in range(1, 33))),
    ("a remote that is off", "remote R9 disable\nremote R9 site 1\nremote R9 prefix 10.0.55.2/32\nremote R9 prefix 10.14.0.8/30\n"
     "remote R9 prefix 10.0.55.1/32\nremote R9 instance 1 endpoint 198.51.100.2:9993"),
    ("a remote that is off in controller-free mode", FREE + "remote R9 disable\nremote R9 instance 1 endpoint 10.14.0.2:9993\n"
     f"remote R9 instance 1 identity 8056c2e21c:0:{KEY}"),
]  # fmt: skip


@pytest.mark.parametrize("text", [case[1] for case in GOOD], ids=[case[0] for case in GOOD])
def test_what_is_not_refused(text: str) -> None:
    tree = configured(EXAMPLE.replace("/28", "/24") + "transit subnet-length 30\n" * ("subnet-length" not in text) + text)
    bundle = parse_bundle("zt0", tree["zt0"])
    box = replace(BOX, engines={"ztnode": "/usr/sbin/ztnode", "zerotier-one": "/usr/sbin/zerotier-one"})
    assert [str(p) for p in (*check_bundle(bundle, GK41), *check_on_box(bundle, box))] == []


def test_controller_free_mode_has_as_many_remotes_as_there_is_room_for() -> None:
    lines = "".join(f"remote R{k} site {k}\nremote R{k} prefix 192.0.2.{k}/32\n" for k in range(2, 33))
    tree = configured(MANY + FREE + lines + "remote R99 disable")
    assert check_bundle(parse_bundle("zt0", tree["zt0"]), GK41) == []


def test_a_disabled_bundle_may_be_incomplete() -> None:
    assert check_bundle(parse_bundle("zt0", configured("disable")["zt0"]), GK41) == []


ON_BOX = [
    ("port of another program", EXAMPLE, {"taken_ports": {9995: "another program uses UDP port 9995"}},
     f"{P} primary port 9993: instance zt0/3 cannot use port 9995, because another program uses UDP port 9995; choose another port or stop the program"),
    ("unknown CPU", EXAMPLE + "cpu affinity 2-5", {},
     f"{P} cpu affinity 2-5: this router has no CPU 4-5; its CPUs are 0-3"),
    ("unknown CPU of an instance", EXAMPLE + "instance 2 cpu 9", {},
     f"{P} instance 2 cpu 9: this router has no CPU 9; its CPUs are 0-3"),
    ("no engine at all", EXAMPLE, {"engines": {}},
     f"{P} engine auto: no engine is installed; install ztnode or zerotier-one 1.14 or later"),
    ("not the engine that is wanted", EXAMPLE + "engine zerotier-one", {},
     f"{P} engine zerotier-one: zerotier-one 1.14 or later is not installed (ztnode found); install its package or set engine auto"),
    ("no TUN device", EXAMPLE, {"has_tun": False},
     f"{P}: /dev/net/tun is missing, so no TAP device can be created; load the kernel module tun"),
    ("no such VRF", EXAMPLE + "vrf blue", {},
     f"{P} vrf blue does not exist; create it first, on VyOS by set vrf name blue"),
    ("a VRF that has the bundle's name", EXAMPLE, {"vrfs": frozenset({"zt0"})},
     f"{P}: a VRF has the same name; rename the VRF or use another number"),
    ("a home that cannot be written", EXAMPLE, {"home_faults": {("zt0", 2): "home /x is not writable (Read-only file system); repair it"}},
     f"{P} instance 2: home /x is not writable (Read-only file system); repair it"),
    ("a foreign next hop in our range", EXAMPLE, {"foreign_nexthops": (2046820481,)},
     f"{P}: another program created next hop 2046820481 in the ID range of zerotier-multi (2046820352 and up); remove it with: ip nexthop del id 2046820481"),
    ("a device of another program by the name of the bundle", EXAMPLE, {"foreign_devices": {"zt0": "a bridge"}},
     f"{P}: device zt0 exists already and is a bridge of another program; stop that program or give its device another name, or use another number"),
    ("a device of another program by the name of a member", EXAMPLE, {"foreign_devices": {"zt0p2": "a TUN or TAP device"}},
     f"{P} instance 2: device zt0p2 exists already and is a TUN or TAP device of another program; stop that program or give its device another name"),
    ("an address of another uplink", EXAMPLE + "instance 2 source-interface eth1\ninstance 2 listen-address 198.51.100.1",
     {"devices": {"eth0": ("198.51.100.1",), "eth1": ("203.0.113.1",)}},
     f"{P} instance 2 listen-address 198.51.100.1 is an address of eth0, not of source-interface eth1; delete one of them"),
    ("no address of its uplink", EXAMPLE + "instance 2 source-interface eth1\nlisten-address 198.51.100.1",
     {"devices": {"eth0": ("198.51.100.1",), "eth1": ("203.0.113.1",)}},
     f"{P} listen-address 198.51.100.1 is not on source-interface eth1 of instance 2, which would listen nowhere; set instance 2 listen-address"),
    ("an address of this router behind a remote", EXAMPLE + "remote R2 prefix 10.0.55.1/32", {},
     f"{P} remote R2 prefix 10.0.55.1/32 is address 10.0.55.1/32 of zt0 on this router; set a prefix that R2 has"),
    ("an address of this router with a longer prefix behind a remote", EXAMPLE.replace("55.1/32", "55.1/24") + "remote R2 prefix 10.0.55.1/32", {},
     f"{P} remote R2 prefix 10.0.55.1/32 is address 10.0.55.1/24 of zt0 on this router; set a prefix that R2 has"),
    ("an address in a VRF to listen on", EXAMPLE + "listen-address 198.51.100.1\nlisten-address 192.0.2.1",
     {"devices": {"eth0": ("198.51.100.1",), "dum0": ("192.0.2.1",)}, "vrf_of": {"dum0": "red"}},
     f"{P} listen-address 192.0.2.1 is an address of dum0 in VRF red, where ztnode does not listen; "
     "set an address of an interface such as eth1, or of a device outside VRFs"),
    ("the loopback address to listen on", EXAMPLE + "instance 2 listen-address 127.0.0.1", {},
     f"{P} instance 2 listen-address 127.0.0.1 is known on this router alone; set an address that remotes reach"),
    ("a link-local address of a dummy to listen on", EXAMPLE + "listen-address fe80::1", {"devices": {"dum0": ("fe80::1",)}},
     f"{P} listen-address fe80::1 is known on this router alone; set an address that remotes reach"),
    ("a tunnel's address to listen on", EXAMPLE + "instance 2 listen-address 2001:db8::1", {"devices": {"wg0": ("2001:db8::1",)}},
     f"{P} instance 2 listen-address 2001:db8::1 is an address of wg0, a tunnel or device of containers, where ztnode does not listen; "
     "set an address of an interface such as eth1 or of lo, or engine zerotier-one"),
    ("a bundle's own address to listen on", EXAMPLE + "engine zerotier-one\ninstance 2 listen-address 10.15.0.1",
     {"devices": {"zt1p1": ("10.15.0.1",)}, "engines": {"zerotier-one": "/usr/sbin/zerotier-one"}},
     f"{P} instance 2 listen-address 10.15.0.1 is an address of zt1p1, a device of a bundle; set an address of an interface such as eth1"),
    ("our own identity as a remote's", EXAMPLE + f"controller-free\nremote R2 instance 1 identity 89e92ceee5:0:{KEY}", {"own_addresses": {"89e92ceee5": "zt0/1"}},
     f"{P} remote R2 instance 1 identity 89e92ceee5 is the identity of zt0/1 on this router; set the identity that R2 prints"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "facts", "sentence"), [c[1:] for c in ON_BOX], ids=[c[0] for c in ON_BOX])
def test_a_bundle_on_this_box(text: str, facts: dict, sentence: str) -> None:
    bundle = parse_bundle("zt0", configured(text)["zt0"])
    assert [str(p) for p in check_on_box(bundle, replace(BOX, **facts))] == [sentence]


HEARD = [
    ("one of lo", "listen-address 192.0.2.1\nlisten-address 2001:db8::1", {"lo": ("192.0.2.1", "2001:db8::1"), "eth0": ()}),
    ("one of a dummy", "listen-address 192.0.2.1", {"dum0": ("192.0.2.1",)}),
    ("one of a tunnel that lo has too", "listen-address 192.0.2.1", {"wg0": ("192.0.2.1",), "lo": ("192.0.2.1",)}),
    ("one that an interface has too", "listen-address 192.0.2.1", {"lo": ("192.0.2.1",), "eth0": ("192.0.2.1",)}),
    ("one that no device has yet", "listen-address 192.0.2.1", {"lo": ()}),
    ("a zerotier-one, which binds to any", "engine zerotier-one\nlisten-address 192.0.2.1", {"wg0": ("192.0.2.1",)}),
    ("what needs a zerotier-one", "bonding-policy balance-rr\nlisten-address 192.0.2.1", {"wg0": ("192.0.2.1",)}),
    ("an instance that has its own", "listen-address 192.0.2.1\n" + "".join(f"instance {k} listen-address 198.51.100.1\n" for k in range(1, 5)),
     {"lo": ("192.0.2.1",), "eth0": ("198.51.100.1",)}),
]  # fmt: skip


def test_an_engine_that_is_chosen_because_it_is_the_only_one_listens_on_any_address() -> None:
    bundle = parse_bundle("zt0", configured(EXAMPLE + "listen-address 192.0.2.1")["zt0"])
    only = replace(BOX, devices={"wg0": ("192.0.2.1",)}, engines={"zerotier-one": "/usr/sbin/zerotier-one"})
    assert check_on_box(bundle, only) == []


@pytest.mark.parametrize(("text", "devices"), [c[1:] for c in HEARD], ids=[c[0] for c in HEARD])
def test_addresses_that_an_engine_listens_on(text: str, devices: dict) -> None:
    bundle = parse_bundle("zt0", configured(EXAMPLE + text)["zt0"])
    engines = {"ztnode": "/usr/sbin/ztnode", "zerotier-one": "/usr/sbin/zerotier-one"}
    assert check_on_box(bundle, replace(BOX, devices=devices, engines=engines)) == []


SECOND = "zt1 instances 2\nzt1 network-id 8056c2e21c000002\nzt1 transit prefix 10.15.0.0/28\nzt1 transit site 1\n"
TOGETHER = [
    ("overlapping transit", SECOND.replace("10.15.0.0/28", "10.14.0.0/24"),
     "interfaces zerotier zt1 transit prefix 10.14.0.0/24 overlaps 10.14.0.0/28 of zt0; give each bundle its own transit prefix"),
    ("one port in two bundles", SECOND + "zt1 primary port 9995",
     "interfaces zerotier zt1 primary port 9995: instance zt1/1 would use port 9995, as instance zt0/3 does; change one of the two ports"),
    ("one address in two bundles", SECOND + "zt1 address 10.0.55.1/32",
     "interfaces zerotier zt1 address 10.0.55.1/32 is also an address of zt0; keep it on one of them"),
    ("one prefix in two bundles", SECOND + "zt1 remote R2 prefix 10.0.55.2/32",
     "interfaces zerotier zt1 remote R2 prefix 10.0.55.2/32 is also a prefix of remote R2 of zt0; keep it at one of them"),
    ("two hash policies", SECOND + "zt1 balance hash-policy layer3",
     "interfaces zerotier zt1 balance hash-policy layer3 conflicts with layer4 of zt0, because the router has one hash policy; set the same in both"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sentence"), [c[1:] for c in TOGETHER], ids=[c[0] for c in TOGETHER])
def test_two_bundles(text: str, sentence: str) -> None:
    tree = configured(EXAMPLE + text)
    bundles = [parse_bundle(name, tree[name]) for name in ("zt0", "zt1")]
    assert next(str(p) for p in check_together(bundles, GK41)) == sentence


def test_two_good_bundles() -> None:
    tree = configured(EXAMPLE + SECOND)
    assert check_together([parse_bundle(name, tree[name]) for name in tree], GK41) == []


def test_what_is_off_is_in_no_other_bundle_s_way() -> None:
    """A bundle or a remote; and one instance spreads nothing, so it needs no hash policy."""
    clash = SECOND + "zt1 address 10.0.55.1/32\nzt1 balance hash-policy layer3\nzt1 remote R2 prefix 10.0.55.2/32\n"
    for lines in (
        clash + "zt1 disable",
        SECOND + "zt1 remote R2 prefix 10.0.55.2/32\nzt1 remote R2 disable",
        SECOND + "zt1 remote R2 prefix 10.0.55.2/32\nremote R2 disable",
        SECOND.replace("instances 2", "instances 1") + "zt1 balance hash-policy layer3",
    ):
        tree = configured(EXAMPLE + lines)
        assert check_together([parse_bundle(name, tree[name]) for name in ("zt0", "zt1")], GK41) == []


def test_an_address_of_another_bundle_behind_a_remote() -> None:
    lines = SECOND + "zt1 remote R2 prefix 10.0.55.1/32\n"
    first, second = (parse_bundle(name, tree) for name, tree in configured(EXAMPLE + lines).items())
    (problem,) = check_on_box(second, BOX, [first])
    assert str(problem) == (
        "interfaces zerotier zt1 remote R2 prefix 10.0.55.1/32 is address 10.0.55.1/32 of zt0 on this router; set a prefix that R2 has"
    )
    assert check_on_box(second, BOX, [replace(first, disabled=True)]) == []
    assert check_on_box(second, BOX, [replace(first, vrf="blue")]) == []
    assert tolerable(second, BOX, [first]) == [problem]


def test_a_wider_prefix_of_a_remote_may_hold_an_address_of_this_router() -> None:
    tree = configured(EXAMPLE + "remote R2 prefix 10.0.0.0/8")
    assert check_on_box(parse_bundle("zt0", tree["zt0"]), BOX) == []


def test_two_bundles_in_two_vrfs_may_have_the_same_addresses() -> None:
    same = EXAMPLE.replace("instances 4", "instances 2").strip().splitlines()
    tree = configured(EXAMPLE + "vrf blue\n" + "\n".join(f"zt1 {line}" for line in same))
    assert check_together([parse_bundle(name, tree[name]) for name in tree], GK41) == []


@pytest.mark.parametrize(
    ("tree", "sentence"),
    [
        ({"network-id": "8056c2e21c00000g"}, f"{P} network-id 8056c2e21c00000g: network ID must be 16 hexadecimal digits, not all zero"),
        ({"instances": "0"}, f"{P} instances 0: instances must be auto or 1 to 32"),
        ({"transit": {"prefix": ["10.14.0.1/28"]}}, f"{P} transit prefix 10.14.0.1/28: give a prefix without host bits, such as 10.14.0.0/28"),
        ({"transit": {"subnet-length": ["40"]}}, f"{P} transit subnet-length 40: subnet length must be 8 to 30 (IPv4) or 64 to 126 (IPv6)"),
        ({"tcp-relay": "192.0.2.1/99999"}, f"{P} tcp-relay 192.0.2.1/99999: give an IP address and a port, such as 192.0.2.1/9993"),
        ({"peer-config": {"0123456789": {"try": ["192.0.2.1/9993", "192.0.2.2"]}}}, f"{P} peer-config 0123456789 try 192.0.2.2: give an IP address and a port, such as 192.0.2.1/9993"),
        ({"remote": {"R2": {"instance": {"1": {"endpoint": ["192.0.2:1"]}}}}}, f"{P} remote R2 instance 1 endpoint 192.0.2:1: give address or name and port, such as 192.0.2.1:9993, [2001:db8::1]:9993 or r2.example.org:9993"),
    ],
)  # fmt: skip
def test_values_that_the_definition_would_not_let_through(tree: dict, sentence: str) -> None:
    with pytest.raises(ConfigProblems) as refused:
        parse_bundle("zt0", tree)
    assert str(refused.value) == sentence


@pytest.mark.parametrize("level", ["", "remote R2 "])
@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("instance 01 {}\ninstance 1 {}", "instance 01 is another instance 1; delete one of them"),
        ("instance 1 {}\ninstance 001 {}", "instance 001 is another instance 1; delete one of them"),
        ("instance 02 {}\ninstance 1 {}", None),
        ("instance 10 {}\ninstance 1 {}", None),
    ],
)
def test_an_instance_is_configured_once(level: str, lines: str, sentence: str | None) -> None:
    value = f"identity 89e92ceee5:0:{KEY}" if level else "cpu 1"
    text = "\n".join(f"{level}{line.format(value)}" for line in lines.splitlines())
    if sentence is None:
        parse_bundle("zt0", configured(EXAMPLE + text)["zt0"])
        return
    with pytest.raises(ConfigProblems) as refused:
        parse_bundle("zt0", configured(EXAMPLE + text)["zt0"])
    assert str(refused.value) == f"{P} {level}{sentence}"


def test_a_secret_identity_is_never_repeated() -> None:
    secret = f"89e92ceee5:0:{KEY}:{'cd' * 64}"
    with pytest.raises(ConfigProblems) as refused:
        parse_bundle("zt0", {"remote": {"R2": {"instance": {"1": {"identity": secret}}}}})
    assert "cdcd" not in str(refused.value)


def test_warnings() -> None:
    tree = configured(EXAMPLE.replace("instances 4", "instances 6").replace("/28", "/27") + "controller-free\ninstance 8 port 9")
    texts = warnings(parse_bundle("zt0", tree["zt0"]), BOX)
    assert [t.partition(":")[0] for t in texts] == [f"{P} instances", f"{P} instance 8", f"{P} remote R2"]


def test_a_remote_that_only_a_routing_protocol_leads_to_is_warned_of() -> None:
    tree = configured(EXAMPLE)["zt0"]
    del tree["remote"]["R2"]["prefix"]
    assert warnings(parse_bundle("zt0", tree), BOX) == [
        f"{P} remote R2 prefix: none is set, so only a routing protocol leads to R2"
    ]
    tree["remote"]["R2"]["disable"] = {}
    assert warnings(parse_bundle("zt0", tree), BOX) == []


@pytest.mark.parametrize(
    ("lines", "warning"),
    [
        ("enable-port-mapping", "enable-port-mapping: 4 instances ask the NAT for ports, which some routers confuse; endpoints and forwarded ports are safer"),
        ("instances 1\nenable-port-mapping", None),
        ("multicore-options enabled\nmulticore-options cpu-pinning\ncpu affinity none",
         "multicore-options cpu-pinning: the threads of all 4 instances are pinned to the same first CPUs"),
        ("multicore-options enabled",
         "multicore-options enabled: an instance is pinned to a single CPU, which its threads share; set cpu affinity none"),
        ("multicore-options enabled\ncpu affinity none", None),
        ("multicore-options enabled\ncpu affinity none\ninstance 2 cpu 1\ninstance 3 cpu 2-3",
         "multicore-options enabled: an instance is pinned to a single CPU, which its threads share; set cpu affinity none"),
        ("instances 1\nmulticore-options enabled\nmulticore-options cpu-pinning\ncpu affinity none", None),
        ("instances 2\nenable-port-mapping",
         "enable-port-mapping: 2 instances ask the NAT for ports, which some routers confuse; endpoints and forwarded ports are safer"),
        ("instances 5\ntransit prefix 10.14.0.0/27", "instances: 5 instances share 4 CPUs"),
        ("instances 5\ntransit prefix 10.14.0.0/27\ncpu affinity none", None),
        ("instance 4 weight 3", None),
        ("instance 9 weight 3\ninstance 5 weight 3\n", "instance 5: it has no effect, because there are fewer instances"),
        (f"controller type ztnet\ncontroller api-key {'k' * 20}\ncontroller url https://ztnet.example.org",
         "controller: its members are named but not authorized; set controller authorize"),
        ("controller-free\nremote R9 disable\nremote R9 site 3\nremote R2 instance 1 endpoint 198.51.100.2:9993",
         "remote R2: no identity for instance 1-4 yet, so there is no path; 'show zerotier zt0 identity' on R2 prints it"),
        ("network-config 192.0.2.0/24 trusted-path 7",
         "network-config 192.0.2.0/24 trusted-path 7: traffic over this network is neither encrypted nor authenticated"),
        ("encrypted-hello", "encrypted-hello: zerotier-one 1.14.1 ignores it; it needs 1.16.0 or newer"),
    ],
)  # fmt: skip
def test_a_setting_that_works_against_the_rest_is_warned_of(lines: str, warning: str | None) -> None:
    parsed = parse_bundle("zt0", configured(EXAMPLE + lines)["zt0"])
    assert warnings(parsed, replace(BOX, zerotier_one=(1, 14, 1))) == ([f"{P} {warning}"] if warning else [])
    if "encrypted-hello" in lines:
        assert warnings(parsed, replace(BOX, zerotier_one=(1, 16, 0))) == [] == warnings(parsed, BOX)


def test_an_uplink_may_come_later_than_the_configuration() -> None:
    parsed = parse_bundle("zt0", configured(EXAMPLE + "instance 2 source-interface pppoe0")["zt0"])
    facts = replace(BOX, devices={"eth0": ()})
    assert check_on_box(parsed, facts) == [] == warnings(parsed, facts)


ENDPOINT = "controller-free\nremote R2 instance 1 endpoint 203.0.113.9:9993\nremote R3 site 3\n"
ON_LO = "listen-address 192.0.2.1\n"


@pytest.mark.parametrize(
    ("lines", "inside"),
    [
        (ON_LO + "remote R2 prefix 203.0.113.9/32", "R2 prefix 203.0.113.9/32"),
        (ON_LO + "remote R3 prefix 203.0.113.0/24", "R3 prefix 203.0.113.0/24"),
        (ON_LO + "remote R2 prefix 0.0.0.0/0", None),
        (ON_LO + "remote R2 prefix 198.51.100.0/24", None),
        (ON_LO + "remote R2 prefix 203.0.113.9/32\ninstance 1 source-interface eth0", None),
        (ON_LO + "remote R2 prefix 203.0.113.9/32\ninstance 1 listen-address 198.51.100.1", None),
        (ON_LO + "remote R2 prefix 203.0.113.9/32\nvrf red", None),
        ("listen-address 2001:db8::1\nremote R2 prefix 203.0.113.9/32", None),
        ("remote R2 prefix 203.0.113.9/32", None),
    ],
)
def test_routes_over_a_bundle_that_lead_an_address_of_lo_astray_are_warned_of(lines: str, inside: str | None) -> None:
    parsed = parse_bundle("zt0", configured(EXAMPLE + ENDPOINT + lines)["zt0"])
    facts = replace(BOX, devices={"eth0": ("198.51.100.1",), "lo": ("192.0.2.1", "2001:db8::1")})
    sentence = (
        f"{P} remote {inside}: endpoint 203.0.113.9:9993 of remote R2 is inside, and what instance 1 sends from listen-address "
        "192.0.2.1 follows the routes; delete the prefix, or add a longer route to the endpoint by an uplink"
    )
    assert [text for text in warnings(parsed, facts) if "is inside" in text] == ([sentence] if inside else [])


def test_the_devices_of_a_vrf_are_known_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that are in it by way of a bridge."""
    found = [
        Link(1, "lo", None, 65536, True, True),
        Link(2, "red", "vrf", 65575, True, True, table=100),
        Link(3, "dum0", "dummy", 1500, True, True, master=2),
        Link(4, "br0", "bridge", 1500, True, True, master=2),
        Link(5, "eth0", None, 1500, True, True, master=4),
        Link(6, "dum1", "dummy", 1500, True, True),
    ]

    class Kernel:
        def __enter__(self) -> Kernel:
            return self

        def __exit__(self, *_error: object) -> None:
            pass

        def links(self) -> dict[str, Link]:
            return {link.name: link for link in found}

    monkeypatch.setattr(box_facts, "Rtnl", Kernel)
    assert {device: vrf for vrf, inside in box_facts._vrfs().items() for device in inside} == {
        "dum0": "red",
        "br0": "red",
        "eth0": "red",
    }


def test_the_port_of_an_instance_that_is_just_being_restarted_is_not_another_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([{9994}, {9993, 9994}])
    monkeypatch.setattr(systemd, "running_ports", lambda: next(looks))
    monkeypatch.setattr(box, "taken_ports", lambda ports: {port: "another program has it" for port in ports})
    assert box_facts._taken_ports(bundle(EXAMPLE), [1, 2, 3]) == {9995: "another program has it"}


def test_further_ports_of_this_bundle_are_not_another_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = bundle(EXAMPLE + "secondary port 20000")
    plan = make_plan(parsed, BOX.topology, "/usr/sbin/zerotier-one")
    monkeypatch.setattr(systemd, "running_ports", lambda: set())
    monkeypatch.setattr(box, "taken_ports", lambda ports: {port: "another program has it" for port in ports})
    monkeypatch.setattr(box_facts, "published_plans", lambda: [plan])
    assert box_facts._taken_ports(parsed, [1, 2, 3, 4]) == {}


def test_a_port_that_somebody_took_from_an_instance_of_this_bundle_refuses_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = bundle(EXAMPLE)
    plan = make_plan(parsed, BOX.topology, "/usr/sbin/ztnode")
    monkeypatch.setattr(systemd, "running_ports", lambda: {9994})
    monkeypatch.setattr(box, "taken_ports", lambda ports: {port: "another program has it" for port in ports})
    monkeypatch.setattr(box_facts, "published_plans", lambda: [plan])
    assert box_facts._taken_ports(parsed, [1, 2, 5]) == {9997: "another program has it"}
    monkeypatch.setattr(box_facts, "published_plans", lambda: [replace(plan, bundle="zt1")])
    assert 9993 in box_facts._taken_ports(parsed, [1, 2])


# -- devices of other programs by names of a bundle

OURS = Link(3, "zt0", "dummy", 1500, True, True, group=DEVICE_GROUP)
TAP = Link(11, "zt0p1", "tun", 1394, True, True)


def foreign_devices(
    monkeypatch: pytest.MonkeyPatch, *looks: list[Link], running: tuple[set[int], ...] = (set(),), plans: tuple = ()
) -> dict[str, str]:
    """What is found of others where the devices are these at each look, and these instances run at each question."""
    seen, asked = iter(looks), iter(running)

    def states(units: list[str]) -> dict[str, systemd.UnitState]:
        alive = next(asked)
        return {
            unit: systemd.UnitState("active", 100 * (int(unit.rpartition("-")[2].partition(".")[0]) in alive)) for unit in units
        }

    monkeypatch.setattr(box_facts, "_links", lambda wanted: {link.name: link for link in next(seen) if link.name in wanted})
    monkeypatch.setattr(systemd, "unit_states", states)
    monkeypatch.setattr(box_facts, "published_plans", lambda: list(plans))
    return box_facts._foreign_devices(bundle(EXAMPLE), (1, 2, 3, 4))


@pytest.mark.parametrize(
    ("link", "what"),
    [
        (OURS, None),
        (replace(OURS, kind="bridge"), None),  # where the kernel has no dummy driver
        (replace(OURS, group=0), "a device of type dummy"),
        (replace(OURS, kind="bridge", group=0), "a bridge"),
        (replace(OURS, kind="tun", group=0), "a TUN or TAP device"),
        (replace(OURS, kind="tun"), "a TUN or TAP device"),
        (replace(OURS, kind=None, group=0), "a network interface"),
        (replace(TAP, kind="veth"), "a device of type veth"),
        (replace(TAP, group=DEVICE_GROUP, kind="dummy"), "a device of type dummy"),
        (replace(OURS, name="zt1", group=0), None),
        (replace(TAP, name="zt0p5", kind="veth"), None),
    ],
)
def test_whose_a_device_is(monkeypatch: pytest.MonkeyPatch, link: Link, what: str | None) -> None:
    assert foreign_devices(monkeypatch, [link]) == ({link.name: what} if what else {})


@pytest.mark.parametrize(
    ("looks", "running", "foreign"),
    [
        ([[TAP]], [{1}], False),
        ([[TAP], [TAP]], [set(), set()], True),
        ([[TAP], []], [set()], False),
        ([[TAP], [replace(TAP, index=12)]], [set(), set()], False),
        ([[TAP], [TAP]], [set(), {1}], False),
    ],
    ids=["its instance runs", "nobody's", "it has just ended", "it was started again", "it has just been started"],
)
def test_whose_a_tap_is(monkeypatch: pytest.MonkeyPatch, looks: list, running: list, foreign: bool) -> None:
    answers = (*running, set())  # the last is for a question about no TAP
    assert foreign_devices(monkeypatch, *looks, running=answers) == ({"zt0p1": "a TUN or TAP device"} if foreign else {})


def test_where_a_bundle_stands_a_device_of_another_program_refuses_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(bundle(EXAMPLE), BOX.topology, "/usr/sbin/ztnode")
    taken = [replace(OURS, group=0), replace(TAP, kind="veth")]
    assert foreign_devices(monkeypatch, taken, plans=(plan,)) == {}
    disabled = replace(plan, instances=())
    for others in ([replace(plan, bundle="zt1")], [disabled]):
        assert set(foreign_devices(monkeypatch, taken, plans=tuple(others))) == {"zt0", "zt0p1"}
