"""Every parser of ours that reads what comes from outside, or what an earlier process has written down."""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import ipaddress
import json
import random
import re
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.attack.fuzzing import Target, as_text, encoded, mutated_bytes, mutated_json, mutated_text
from tests.configuration import EXAMPLE, SCHEMA, configured, given
from tests.unit.loop import Loop
from tests.unit.test_configured_identity import secret as secret_identity
from tests.unit.op_box import PLAN, box, peer
from zerotier_multi import hosts, membership, planet, systemd, world
from zerotier_multi.archive import Archive, ArchiveProblem, is_archived, pack, unpack
from zerotier_multi.bundle_parser import parse_bundle
from zerotier_multi.checks import check_bundle
from zerotier_multi.controller.dialects import DIALECTS, Member
from zerotier_multi.cpu import Cpu, parse_cpu_list
from zerotier_multi.errors import ConfigProblems
from zerotier_multi.files import clear_unfinished
from zerotier_multi.homefiles import home_files, is_kept, is_leftover
from zerotier_multi.homes import home_fault, own_identity
from zerotier_multi.identity import PublicIdentity, SecretIdentity
from zerotier_multi.importing.lines import commands, read_source
from zerotier_multi.importing.process import ImportProblem
from zerotier_multi.invite import Invite, InvitedInstance, encode, warnings
from zerotier_multi.op import data, gather, text
from zerotier_multi.op.benchmark import decide, drive, serve, usage
from zerotier_multi.op.benchmark import text as benchmark_text
from zerotier_multi.pathd.instances import controllers, members, resolver
from zerotier_multi.pathd.nftables import mss, spoofed
from zerotier_multi.pathd.probe import wire
from zerotier_multi.pathd.routing import leases
from zerotier_multi.pathd.control_socket import ControlSocket
from zerotier_multi.pathd.plans import Plans
from zerotier_multi.pathd.tell.since import Since
from zerotier_multi.pathd.kernel.sysctls import Sysctls
from zerotier_multi.plan import PlanError, from_json, to_json
from zerotier_multi.planner import make_plan
from zerotier_multi.units import dropin
from zerotier_multi.values import endpoint, named_endpoint
from ztsh import access, archive, bootreport, server, showconfig, wrapper
from ztsh.configuration import read_config
from ztsh.confmode import ConfMode
from ztsh.errors import Leave, SessionError
from ztsh.session import Session
from ztsh.text import TextError, parse, render
from ztsh.words import LineError, split, split_open

Made = list[Target[Any]]
_DEEP = '[{"x":' * 5000


def targets(directory: Path) -> Made:
    """All of them; files go into ``directory``, which also has to be where ztsh has its own."""
    return [
        *_wire(),
        *_plans(directory),
        *_files(directory),
        *_names(),
        *_api(),
        *_controllers(),
        *_invites(),
        *_benchmark(),
        *_sources(directory),
        *_control(directory),
        *_ztsh(directory),
    ]


# -- packets


def _wire() -> Made:
    probe = wire.Probe(7, True, 2, 900, 1 << 40, 3, 3, 3, 40, 1 << 63, 5, 12)
    samples = []
    for family in (4, 6):
        for kind in (wire.ECHO_REQUEST, wire.ECHO_REPLY):
            packet = bytes([kind[family]]) + wire.encode(probe, family, 77)[1:]
            samples.append(bytes([family]) + (b"\x45" + bytes(19) if family == 4 else b"") + packet)

    def call(given: bytes) -> bool:
        family = 6 if given[:1] == b"\x06" else 4
        found = wire.decode(given[1:], family)
        if found:
            _reply, identifier, told = found
            assert len(wire.encode(told._replace(sequence=told.sequence & 0xFFFF), family, identifier)) >= wire.SIZE
        return found is not None

    return [Target("probes", samples, mutated_bytes, call)]


# -- plans


def _plans(directory: Path) -> Made:
    plans = [
        PLAN,
        *box().plans,
        make_plan(parse_bundle("zt0", configured(EXAMPLE + "vrf blue\ninstance 2 cpu 1")["zt0"]), (Cpu(0, 0), Cpu(1, 1)), "x"),
    ]
    samples = [json.loads(to_json(plan)) for plan in plans]
    places = directory / "plans"
    places.mkdir()

    def call(given: str) -> bool:
        (places / "zt0.json").write_bytes(encoded(given))
        reader = Plans(places)
        found = reader.load()
        assert len(reader.problems) == 1 - len(found)
        try:
            plan = from_json(given)
        except PlanError as error:
            assert "\n" not in str(error)
            return False
        # What the daemon and op mode make of a plan.
        assert from_json(to_json(plan)) == plan
        for instance in plan.instances:
            dropin(instance, "digest")
        mss.chains([plan], {})
        with suppress(ValueError):  # of words that are no addresses
            spoofed.chains([plan], ())
            hosts.with_hosts(plan, {})
            for instance in plan.instances:
                home_files(plan, instance, None)
        return True

    known = [
        _DEEP,
        json.dumps({**samples[0], "x\ny": 7}),
        json.dumps({**samples[0], "adjust_mss": 7}),
        json.dumps({**samples[0], "adjust_mss": ["disable"]}),
        json.dumps({**samples[0], "addresses": [None]}),
    ]
    return [Target("plans", samples, as_text, call, known)]


# -- files


def _files(directory: Path) -> Made:
    home = directory / "home"
    (home / "networks.d").mkdir(parents=True)
    own = PublicIdentity.parse(f"89e92ceee5:0:{'ab' * 64}")
    made = planet.make_planet("8056c2e21c000001", own)
    moon = planet.make_moon(own, [endpoint("198.51.100.1:9993"), endpoint("[2001:db8::1]:9993")])
    wanted = home_files(replace(PLAN, planet=base64.b64encode(made).decode()), PLAN.instances[0], own)

    def identity(given: str) -> bool:
        (home / "identity.secret").write_bytes(encoded(given))
        fault = home_fault(home)
        assert fault is None or ("\n" not in fault and "cdcdcd" not in fault)
        try:
            found = own_identity(home)
        except ValueError as error:
            assert fault and "cdcdcd" not in str(error)
            return False
        return found is not None

    home_of = {"identity.secret": f"{own}:{'cd' * 64}".encode(), "networks.d/8056c2e21c000001.conf": b"v=7"}
    packed = pack(Archive("R1", "2026-11-23T00:00:00+00:00", {("zt0", 1): home_of, ("zt255", 32): home_of}))
    pair = secret_identity(1)

    def archived(given: bytes) -> bool:
        try:
            homes = unpack(given).homes
        except ArchiveProblem:
            return False
        assert all(is_archived(name) for home in homes.values() for name in home)
        assert all(re.fullmatch(r"zt[0-9]{1,3}", bundle) and 1 <= number <= 32 for bundle, number in homes)
        return True

    def secret_of_the_configuration(given: str) -> bool:
        try:
            SecretIdentity.parse(given)
        except ValueError as error:
            assert "cd" * 30 not in str(error)
            return False
        return True

    def worlds(given: bytes) -> bool:
        is_leftover("planet", given, wanted)
        is_leftover("moons.d/1.moon", given, wanted)
        is_leftover("networks.d/x.conf", given, wanted)
        for digest in ("", "-"):
            is_kept("planet", given, wanted, {"planet": digest})
        world.is_signed(given, given)
        for check_ in (lambda: world.check(given), lambda: world.from_text(given.decode("latin1"))):
            with suppress(ValueError):
                check_()
                return True
        return planet.is_our_moon(given)

    def memory(given: str) -> bool:
        path = directory / "memory.json"
        path.write_bytes(encoded(given))
        since = Since(path, lambda: 100.0)
        for number in since.states():
            assert isinstance(since.unix(number, 1_700_000_000.0), int)
        Sysctls(path, directory)
        known = hosts.read_hosts(path)
        hosts.with_hosts(replace(PLAN, peers=(_PEER,)), known)
        return bool(known) or bool(since.states())

    def lease(given: str) -> bool:
        for name in ("run/dhclient/dhclient_eth1.lease", "var/lib/dhcp/dhclient.leases", "run/systemd/netif/leases/3"):
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encoded(given))
            if found := leases.router_of_lease("eth1", 3, directory):
                assert found.count(".") == 3 and len(found) < 16
                return True
            path.unlink()
        return False

    secret = f"89e92ceee5:0:{'ab' * 64}:{'cd' * 64}"
    isc = 'lease {\n  interface "eth1";\n  fixed-address 203.0.113.9;\n  option routers 203.0.113.1,203.0.113.2;\n  expire 2 2026/01/01;\n}\n'
    return [
        Target("identity.secret", [secret, secret + "\n"], mutated_text, identity),
        Target("archives", [packed], mutated_bytes, archived),
        Target("identities of the configuration", [pair, secret], mutated_text, secret_of_the_configuration),
        Target("planets and moons", [made, moon, base64.b64encode(made)], mutated_bytes, worlds),
        Target(
            "what the daemon writes down",
            [
                {"2046820481": ["up", 12.5]},
                {"r2.example.org": ["198.51.100.2", "2001:db8::2"]},
                {"net/ipv4/fib_multipath_hash_policy": "0"},
            ],
            as_text,
            memory,
            [_DEEP, '{"r2.example.org": ["198.51.100.256"]}', '{"1": ["up", Infinity]}', '{"1": ["up", NaN]}'],
        ),
        Target(
            "DHCP leases",
            [
                isc,
                isc * 3,
                "new_routers='203.0.113.1 203.0.113.2'\nnew_ip_address='203.0.113.9'\n",
                "ADDRESS=203.0.113.9\nROUTER=203.0.113.1\n",
            ],
            mutated_text,
            lease,
            ["lease {\n" * 60_000],
        ),
    ]


_PEER = replace(box().plans[0].peers[0], endpoints=("r2.example.org:9993", "198.51.100.7:9993"))


# -- words


def _raises_value_error(*parsers: Callable[[str], object]) -> Callable[[str], bool]:
    def call(given: str) -> bool:
        good = False
        for parser in parsers:
            with suppress(ValueError):
                parser(given)
                good = True
        return good

    return call


def _names() -> Made:
    output = "198.51.100.2    STREAM r2.example.org\n198.51.100.2    DGRAM\n2001:db8::2     STREAM\n"
    unit = "ActiveState=active\nMainPID=12\nNRestarts=0\nActiveEnterTimestampMonotonic=123\nMemoryCurrent=[not set]\n"

    def found(given: str) -> bool:
        listed = resolver.addresses(given)
        assert len(listed) <= resolver.MOST
        return bool(listed)

    return [
        Target("getent", [output], mutated_text, found),
        Target(
            "endpoints, identities, CPU lists",
            ["192.0.2.1:9993", "[2001:db8::1]:9993", "r2.example.org:9993", "0-3,8", f"89e92ceee5:0:{'ab' * 64}"],
            mutated_text,
            _raises_value_error(endpoint, named_endpoint, parse_cpu_list, PublicIdentity.parse),
        ),
        Target(
            "units of systemd",
            [unit],
            mutated_text,
            lambda given: systemd.parse_unit(given, 5.0).pid == 12,
            ["MainPID=²", "NRestarts=" + "9" * 5000],
        ),
    ]


# -- what an instance tells

_STATUS = {
    "address": "00000000a1",
    "online": True,
    "version": "1.14.1",
    "clock": 5,
    "unreadHello": [{"address": "0000000001", "last": 1}],
}
_NETWORK = {"nwid": "8056c2e21c000001", "id": "8056c2e21c000001", "status": "OK", "mtu": 2800, "portDeviceName": "zt0p1"}


_ODD_ANSWERS = [
    [{**_STATUS, "address": 256}, [{**_NETWORK, "status": "ACCESS_DENIED"}], [peer("00000000b1")]],
    [{**_STATUS, "clock": "x"}, [], []], [{**_STATUS, "unreadHello": ["x"]}, [], []], [_STATUS, [], [{"address": "00000000b1", "paths": "x"}]],
]  # fmt: skip


def _api() -> Made:
    instance, plan = PLAN.instances[0], replace(PLAN, controller_free=False)
    answers = [
        [_STATUS, [_NETWORK], [peer("00000000b1")]],
        [_STATUS, [{**_NETWORK, "status": "ACCESS_DENIED"}], [peer("00000000b1", role="LEAF")]],
    ]

    def shown(given: Any) -> bool:
        status, networks, peers = given if isinstance(given, list) and len(given) == 3 else ({}, [], [])
        told = gather.understood(status, networks, peers)
        seen = replace(box(), answers={instance.unit: told}, nodes={}, plans=(plan,))
        for chosen in (plan, *box().plans):
            text.bundle(data.bundle(seen, chosen), False)
            text.instances(data.instances(seen, chosen), False)
            text.paths(data.paths(seen, chosen), False)
            text.summary(data.summary(seen), False)
        member = members._told([status, networks], instance)
        stands = membership.member(plan, instance, member.status, member.online, member.node, [("R2", "down")])
        if stands:
            membership.cause(stands)
            membership.sentences([stands])
        return told.peers is not None

    body = json.dumps(_STATUS).encode()
    good = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: keep-alive\r\n\r\n" % len(body)
        + body
    )

    def http(given: bytes) -> bool:
        with suppress(ValueError):
            return members.decode(given) is not None
        return False

    return [
        Target("answers of an instance", answers, mutated_json, shown, _ODD_ANSWERS),
        Target(
            "HTTP, in the daemon",
            [good],
            mutated_bytes,
            http,
            [
                b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100_000,
                good.replace(b"Length: ", "Length: ²".encode("latin1")),
            ],
        ),
    ]


# -- what a controller answers, and the program that asks it


def _controllers() -> Made:
    node, network = "89e92ceee5", "8056c2e21c000001"
    inner = {"authorized": True, "ipAssignments": ["10.14.0.1", "2001:db8::1"], "noAutoAssignIps": False}
    members = [
        {"name": "R1 zt0p1", "status": "authorized", "ipv4Assignments": ["10.14.0.1"], "ipv6Assignments": []},
        {"name": "R1 zt0p1", "config": inner},
        {"id": node, "address": node, "name": "R1 zt0p1", **inner},
        [{"id": node, "address": node, "name": "R1 zt0p1", **inner}],
    ]
    want = Member("R1 zt0p1", True, frozenset({"10.14.0.1"}), automatic=False)

    def understood(given: Any) -> bool:
        found = [dialect.understand(given, node) for dialect in DIALECTS.values()]
        for dialect, member in zip(DIALECTS.values(), found, strict=True):
            json.dumps([request.body for request in dialect.change(network, node, member or Member(), want)])
        return any(member and member.name for member in found)

    def outcome(given: Any) -> bool:
        return controllers.read_outcome(json.dumps(given).encode()).fault is None

    done = {"fault": None, "members": [{"device": "zt0p1", "network": network, "node": node, "fault": None, "changed": True}]}
    return [
        Target("answers of a controller", members, mutated_json, understood),
        Target("what an attempt prints", [done], mutated_json, outcome, [{"members": [1]}, []]),
    ]


# -- what another router has printed, and what it says in a benchmark


def _invites() -> Made:
    base = EXAMPLE.replace("remote R2 prefix 10.0.55.2/32\n", "") + "controller-free\n"
    identity = PublicIdentity.parse(f"89e92ceee5:0:{'ab' * 64}")
    endpoints = (endpoint("192.0.2.2:9993"), endpoint("[2001:db8::2]:9993"))
    prefixes = (ipaddress.ip_network("10.0.55.2/32"),)
    samples = [
        Invite(2, "8056c2e21c000001", prefixes, {1: InvitedInstance(identity, endpoints)}),
        Invite(3, None, prefixes, {k: InvitedInstance(replace(identity, address=f"{k:010x}"), endpoints) for k in range(1, 5)}),
    ]

    def call(given: bytes) -> bool:
        word = base64.urlsafe_b64encode(given + struct.pack("!I", binascii.crc32(given))).rstrip(b"=").decode()
        tree = configured(base)["zt0"]
        tree["remote"] = {"R2": {"invite": word}}
        try:
            made = parse_bundle("zt0", tree)
        except ConfigProblems as problems:
            assert str(problems).isprintable() and f"invite {word[:12]}" in str(problems)
            return False
        if check_bundle(made, _CPUS):
            return False
        plan = make_plan(made, _CPUS, "x")
        assert from_json(to_json(plan)) == plan
        assert all("/0" not in route.prefix for route in plan.routes)
        assert all(line.isprintable() for line in warnings(made.path, tree["remote"], plan, None))
        return True

    odd = [replace(samples[0], site=0), replace(samples[0], prefixes=(ipaddress.ip_network("0.0.0.0/0"),))]
    bodies, known = (
        [base64.urlsafe_b64decode(word + "=" * (-len(word) % 4))[:-4] for word in map(encode, made)] for made in (samples, odd)
    )
    return [Target("invites", bodies, mutated_bytes, call, known)]


def _benchmark() -> Made:
    looks = [
        usage.Look(at, {0: at / 2, 1: at / 3}, {1: {100: at / 2, 101: at / 4}, 2: {200: at / 3}}, {1: int(at) << 30, 2: 5})
        for at in (10.0, 12.0)
    ]
    said = serve.describe(PLAN)
    sample = [json.loads(json.dumps(one)) for one in (said, *(one.to_json() for one in looks))]

    def call(given: str) -> bool:
        try:
            answer, first, last = json.loads(given)
            drive.reason(answer)
            far, begin, end = drive.far_end("R2", answer), usage.from_json(first), usage.from_json(last)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            return False
        near = decide.End("R1", {k: (k,) for k in range(1, 5)}, tuple(range(4)))
        step = drive.made_step([1, 2], (looks[0], begin, 1, 0), (looks[1], end, 1000, 1))
        found = drive.result(PLAN, "R2", [step], near, far, decide.decide("zt0", 4, [step], near, far))
        assert "NaN" not in (told := json.dumps(found)) and "Infinity" not in told
        assert benchmark_text.text(found).replace("\n", "").isprintable()
        return True

    odd = [
        json.dumps([{**sample[0], "instances": {"1": [float("inf")]}}, *sample[1:]]),
        *(json.dumps([*sample[:2], {**sample[2], "at": at}]) for at in (float("nan"), float("inf"), 10**400)),
        json.dumps([*sample[:2], {**sample[2], "received": {"1": 10**400}}]),
        json.dumps([sample[0], sample[2], sample[1]]),
        _DEEP,
    ]
    return [Target("answers in a benchmark", [sample], as_text, call, odd)]


# -- what runs ZeroTier elsewhere


def _sources(directory: Path) -> Made:
    home = directory / "zerotier-one"
    (home / "networks.d").mkdir(parents=True)
    (home / "networks.d" / "8056c2e21c000001.conf").touch()
    conf = {
        "physical": {"192.0.2.0/24": {"blacklist": True}, "198.51.100.0/24": {"mtu": 1400, "trustedPathId": 7}},
        "virtual": {"0123456789": {"try": ["192.0.2.1/9993"]}},
        "settings": {
            "primaryPort": 9995,
            "bind": ["192.0.2.9"],
            "portMappingEnabled": True,
            "interfacePrefixBlacklist": ["zt", "eth3"],
            "policies": {"fast": {"basePolicy": "active-backup", "links": {"eth0": {"mode": "primary", "ipvPref": 4}}}},
        },
    }
    uci = (
        "config zerotier 'global'\n\toption enabled 1\n\toption port '9994'\n\tlist join '8056c2e21c000001'\n\toption secret 'x'\n"
    )
    old = "set container name zt1 image 'zerotier/zerotier:1.14.2'\nset container name zt1 arguments '8056c2e21c000001'\n"

    def imported(path: Path) -> bool:
        try:
            lines = commands(read_source(path))
        except ImportProblem as problem:
            assert "\n" not in str(problem)
            return False
        assert all(line.isprintable() and line.startswith(("set interfaces zerotier zt", "#")) for line in lines)
        return len(lines) > 4

    def local_conf(given: str) -> bool:
        (home / "local.conf").write_bytes(encoded(given))
        return imported(home)

    def port(given: str) -> bool:
        (home / "local.conf").write_text("{}")
        (home / "zerotier-one.port").write_bytes(encoded(given))
        try:
            return imported(home)
        finally:
            (home / "zerotier-one.port").unlink()

    def configuration(given: str) -> bool:
        (directory / "source").write_bytes(encoded(given))
        return imported(directory / "source")

    near = '{"a":' * 985 + "1" + "}" * 985  # which JSON may be
    boot = _BOOT.replace("controller-free", "primary {\n port 9994\n}")
    return [
        Target(
            "local.conf of zerotier-one",
            [conf],
            as_text,
            local_conf,
            [
                "[" * 5000,
                _DEEP,
                near,
                '{"settings": {"interfacePrefixBlacklist": %s1%s}}' % ("[" * 980, "]" * 980),
                '{"settings": {"bind": 5}}',
                '{"settings": {"primaryPort": true}}',
            ],
        ),
        Target("zerotier-one.port", ["9993", "9993\n"], mutated_text, port, ["²", "9" * 5000]),
        Target(
            "configurations to import",
            [uci, old, boot, "set interfaces zerotier zt0 primary port 9994\n"],
            mutated_text,
            configuration,
            [
                uci.replace("9994", "²"),
                uci.replace("9994", "9" * 5000),
                uci + f"\toption local_conf_path '/{'x' * 5000}'\n",
                "set interfaces zerotier zt0 primary port ²\n",
                old + f"set container name zt1 volume h source /{'x' * 5000}\n"
                "set container name zt1 volume h destination /var/lib/zerotier-one\n",
            ],
        ),
    ]


# -- what anybody may ask the daemon


def _control(directory: Path) -> Made:
    loop, path = Loop(), directory / "control.sock"

    async def handler(request: dict[str, Any], _privileged: bool) -> dict[str, Any]:
        return {"op": str(request.get("op"))[:20]}

    door = ControlSocket(loop, handler, path, privileged=False)

    def call(given: bytes) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect(str(path))
            client.setblocking(False)
            with suppress(BlockingIOError, BrokenPipeError):
                client.send(given + b"\n")
            client.shutdown(socket.SHUT_WR)
            told = b""
            while part := _part(client):
                told += part if isinstance(part, bytes) else b""
                assert part is not True or loop.turn(5.0), "it does not answer"
            return bool(told) and "error" not in json.loads(told)

    assert door
    return [Target("requests to the daemon", REQUESTS, a_request, call)]


REQUESTS = [
    {"op": "status"},
    {"op": "sync", "settings": {"net/ipv4/fib_multipath_hash_policy": "1"}},
    {"op": "drain", "devices": ["zt0p1"]},
]


def a_request(source: random.Random, samples: Sequence[Any]) -> bytes:
    """A line for a socket of the daemon, or what is none."""
    return (
        encoded(as_text(source, samples))
        if source.random() < 0.8
        else mutated_bytes(source, [json.dumps(s).encode() for s in samples])
    )


def _part(client: socket.socket) -> bytes | bool:
    """What has come; empty at the end, True while nothing has."""
    try:
        return client.recv(1 << 17)
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return b""


# -- ztsh


_BOOT = """interfaces {
    /* the link */
    zerotier zt0 {
        address "10.0.55.1/32"
        controller-free
        description "a \\"b\\" c"
        instances "4"
        network-id "8056c2e21c000001"
        remote R2 {
            prefix "10.0.55.2/32"
            prefix "192.0.2.0/24"
        }
        transit {
            prefix "10.14.0.0/28"
            site "1"
        }
    }
}


// vyos-config-version: "zerotier@1"
"""


def _ztsh(directory: Path) -> Made:
    def boot(given: str) -> bool:
        try:
            parse(given)
            config = read_config(given, SCHEMA)
        except (TextError, SessionError):
            refused: list[str] = []
            with suppress(SessionError):
                read_config(given, SCHEMA, refused)
                assert refused
            return False
        assert read_config(render(config.tree, SCHEMA, config.comments), SCHEMA) == config
        return bool(config.tree)

    def filters(given: str) -> bool:
        results = []
        for form in ("commands", "json", "strip-private"):
            with _input(given), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                results.append(showconfig.run_filter([form]))
        return not any(results)

    def bundle(text_: str) -> bool:
        session = Session(SCHEMA)
        session.candidate = {}
        for line in text_.splitlines():
            with suppress(SessionError, LineError):
                session.set(["interfaces", "zerotier", "zt0", *split(line).words])
        got = given(session).get("zt0")
        if not got:
            return False
        try:
            made = parse_bundle("zt0", got)
        except ConfigProblems as problems:
            assert all("\n" not in str(problem) for problem in problems.problems)
            return False
        found = check_bundle(made, _CPUS)
        if not found and made.instances != "auto":
            assert from_json(to_json(make_plan(made, _CPUS, "x")))
        return not found

    def lines(given: str) -> bool:
        conf = ConfMode(Session(SCHEMA), lambda _words: "")
        good = False
        for line in given.splitlines()[:40]:
            with suppress(SessionError, LineError, Leave):
                split_open(line)
                if not split(line).words or split(line).words[0][:2] not in _SAFE:
                    continue
                conf.line(line)
                good = True
        return good

    def request(given: str) -> bool:
        out = io.StringIO()
        with _input(given), redirect_stdout(out), redirect_stderr(out):
            status = server.serve()
        assert status in (0, 2, access.REFUSED)
        told = out.getvalue()
        assert "Traceback" not in told and "\x1b" not in told and len(told) < 1 << 20
        return status == 0

    def revision(given: bytes) -> bool:
        places = directory / "config" / "archive"
        places.mkdir(exist_ok=True)
        (places / "commit-00000000.gz").write_bytes(given)
        found = archive.revisions()
        assert archive.log(found).count("\n") <= 2 * len(found)
        for one in found:
            assert len(one.text()) < 1 << 27
        return bool(found)

    def wrapped(given: str) -> bool:
        file = directory / "session.json"
        file.write_bytes(encoded(given))
        with suppress(SessionError):
            return wrapper._session(file).modified()
        return False

    def report(given: str) -> bool:
        (directory / "run").mkdir(exist_ok=True)
        (directory / "run" / "boot.report").write_bytes(encoded(given))
        return "Warning: at boot: " in bootreport.boot_warning()

    def left(given: str) -> bool:
        name = given.replace("/", "_").replace("\0", "_")
        places = directory / "left"
        places.mkdir(exist_ok=True)
        with suppress(OSError, UnicodeEncodeError):
            (places / name).touch()
            clear_unfinished(places)
            gone = not (places / name).exists()
            (places / name).unlink(missing_ok=True)
            return gone
        return False

    header = {"time": 1_700_000_000.5, "user": "vyos", "via": "cli", "comment": "why"}
    commit = {
        "operation": "commit",
        "changes": {
            "gone": [["interfaces", "zerotier", "zt0", "description"]],
            "added": [["interfaces", "zerotier", "zt0", "description", "text"], ["interfaces", "zerotier", "zt1"]],
            "comments": [[["interfaces", "zerotier", "zt0"], "a comment"]],
        },
        "details": {"via": "cli", "comment": "why", "confirm": 0},
    }
    changes = commit["changes"]
    typed = [
        "set interfaces zerotier zt0 instances 4\nset interfaces zerotier zt0 description 'a b'\nshow\ncompare\n",
        "edit interfaces zerotier zt0\nset remote R2 prefix 192.0.2.0/24\nup\ntop\nshow -all\ndelete interfaces\n",
        "set interfaces zerotier zt0\ncomment interfaces zerotier zt0 'text'\ncopy interfaces zerotier zt0 to zerotier zt1\n",
    ]
    own = [
        EXAMPLE,
        EXAMPLE + "controller-free\nremote R2 instance 1 endpoint r2.example.org:9993\ninstance 2 port 9999\n",
        EXAMPLE + _MORE,
    ]
    return [
        Target("config.boot", [_BOOT], mutated_text, boot, ["/* " * 40_000, "lease {" * 18_000]),
        Target(
            "filters behind a pipe", [_BOOT, "+   " + _BOOT.replace("\n", "\n    ")], mutated_text, filters, ["a b\na {\n b c\n}\n"]
        ),
        Target("bundles", own, mutated_text, bundle),
        Target(
            "lines of conf mode",
            typed,
            mutated_text,
            lines,
            [
                "set interfaces zerotier zt0 instances 4\nshow interfaces zerotier zt0 instances 4\n",
                "compare ²\nrollback ²\nset interfaces zerotier zt² disable\nshow\n",
            ],
        ),
        Target(
            "requests to the authority",
            [commit, {**commit, "operation": "save"}, {**commit, "operation": "confirm"}],
            as_text,
            request,
            [
                json.dumps({**commit, "operation": "\x1b[2J"}),
                json.dumps({**commit, "changes": {**changes, "added": [["\x1b[2J"]]}}),
            ],
        ),
        Target(
            "commits of the archive",
            [gzip.compress(f"// commit: {json.dumps(header)}\n{_BOOT}".encode(), mtime=0)],
            mutated_bytes,
            revision,
            [_TORN],
        ),
        Target(
            "headers of commits",
            [header],
            lambda source, samples: gzip.compress(b"// commit: " + encoded(as_text(source, samples)) + b"\n"),
            revision,
            [
                gzip.compress(b"// commit: " + json.dumps({**header, **odd}).encode())
                for odd in ({"time": "x"}, {"time": 1e300}, {"via": "x\n0 forged"})
            ],
        ),
        Target(
            "sessions of the command wrapper",
            [changes],
            as_text,
            wrapped,
            ["0", _DEEP, "{}", '{"gone": [], "added": [["nothing"]], "comments": []}'],
        ),
        Target("what boot has told", ["interfaces zerotier zt0: it is refused\n"], mutated_text, report, ["\ud800"]),
        Target("names of unfinished files", [f".local.conf.{1 << 22}", ".x.999999999"], mutated_text, left),
    ]


_TORN = gzip.compress(b"// commit: {}\n" + bytes(range(256)) * 9, mtime=0)[:40] + bytes(60)
_CPUS = tuple(Cpu(n, n) for n in range(4))
_SAFE = {"se", "de", "ed", "up", "to", "sh", "co", "re", "ex", "di", "an"}  # beginnings of what changes nothing outside the session
_MORE = """cpu affinity 1-3
mtu 2800
vrf blue
address 2001:db8::1/128
transit prefix 2001:db8:14::/120
remote R2 prefix 2001:db8:2::/48
balance weights auto
instance 3 source-interface eth1
instance 3 gateway 198.51.100.254
health-check interval 300
ip adjust-mss 1200
"""


@contextmanager
def _input(given: str) -> Iterator[None]:
    """The text on standard input."""
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(encoded(given)), "utf-8", "surrogateescape")
    try:
        yield
    finally:
        sys.stdin = before
