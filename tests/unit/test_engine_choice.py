"""Which engine `auto` takes, the reason that is shown, and the sentence where there is no fit one."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest
from tests.configuration import EXAMPLE, bundle, configured
from tests.unit.op_box import box
from zerotier_multi import commit, engine_choice, facts, names
from zerotier_multi.cpu import Cpu
from zerotier_multi.box_checks import BoxFacts, warnings
from zerotier_multi.engine_choice import Choice, choose_engine, engine_problems
from zerotier_multi.op import data, text
from zerotier_multi.planner import make_plan

SETTINGS_H = Path(__file__).resolve().parent.parent.parent / "packages/ztnode/src/settings.h"
P = "interfaces zerotier zt0"
BOTH = {"zerotier-one": "/sbin/zerotier-one", "ztnode": "/sbin/ztnode"}
STOCK, OURS = ({name: BOTH[name]} for name in ("zerotier-one", "ztnode"))
OWN = {"89e92ceee5": "zt0/1"}
CONTROLLER = EXAMPLE.replace("8056c2e21c000001", "89e92ceee5000001")
LISTEN = EXAMPLE + "".join(f"instance 2 listen-address 198.51.100.{n}\n" for n in range(1, 34))
PREFIXES = EXAMPLE + "".join(f"remote R2 prefix 172.16.{n >> 8}.{n & 255}/32\n" for n in range(510))
WIDE = EXAMPLE + "".join(f"remote R2 prefix 172.{n >> 8 | 16}.{n & 255}.0/24\n" for n in range(600))
CONFIGURED = EXAMPLE + "".join(f"network-config 172.16.{n >> 8}.{n & 255}/32 blacklist\n" for n in range(510))

CASES = [
    ("both installed", EXAMPLE, BOTH, Choice("/sbin/ztnode", "auto")),
    ("ztnode alone", EXAMPLE, OURS, Choice("/sbin/ztnode", "auto")),
    ("an architecture without ztnode", EXAMPLE, STOCK, Choice("/sbin/zerotier-one", "auto: ztnode is not installed")),
    ("configured ztnode", EXAMPLE + "engine ztnode", BOTH, Choice("/sbin/ztnode")),
    ("configured zerotier-one", EXAMPLE + "engine zerotier-one", BOTH, Choice("/sbin/zerotier-one")),
    ("its own controller", CONTROLLER, BOTH, Choice("/sbin/zerotier-one", "auto: network-id 89e92ceee5000001 needs it")),
    ("what a controller manages", EXAMPLE + "network 8056c2e21c000001 allow-managed", BOTH,
     Choice("/sbin/zerotier-one", "auto: network 8056c2e21c000001 allow-managed needs it")),
    ("its own controller for one instance", EXAMPLE + "instance 3 network-id 89e92ceee5000002", BOTH,
     Choice("/sbin/zerotier-one", "auto: instance 3 network-id 89e92ceee5000002 needs it")),
    ("an own address without a controller", CONTROLLER + "controller-free", BOTH, Choice("/sbin/ztnode", "auto")),
    ("more listen addresses than ztnode binds", LISTEN, BOTH, Choice("/sbin/zerotier-one", "auto: instance 2 listen-address needs it")),
    ("the same for the bundle", LISTEN.replace("instance 2 ", ""), BOTH, Choice("/sbin/zerotier-one", "auto: listen-address needs it")),
    ("as many listen addresses as ztnode binds", "\n".join(LISTEN.splitlines()[:-1]), BOTH, Choice("/sbin/ztnode", "auto")),
    ("more prefixes than ztnode keeps", PREFIXES, BOTH, Choice("/sbin/zerotier-one", "auto: remote needs it")),
    ("any number of wider prefixes, which are not kept off", WIDE, BOTH, Choice("/sbin/ztnode", "auto")),
    ("more than ztnode keeps by itself", CONFIGURED, BOTH, Choice("/sbin/zerotier-one", "auto: network-config needs it")),
    ("configured, and kept off anyway", CONFIGURED.replace("172.16.0.0/32", "10.0.55.2/32"), BOTH, Choice("/sbin/ztnode", "auto")),
    ("as many prefixes as ztnode keeps", "\n".join(PREFIXES.splitlines()[:-1]), BOTH, Choice("/sbin/ztnode", "auto")),
]  # fmt: skip


@pytest.mark.parametrize(("config", "engines", "choice"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_engine_that_is_taken(config: str, engines: dict, choice: Choice) -> None:
    assert choose_engine(bundle(config), engines, OWN) == choice
    assert not list(engine_problems(bundle(config), engines, OWN))


REFUSED = [
    ("nothing installed", EXAMPLE, {}, f"{P} engine auto: no engine is installed; install ztnode or zerotier-one 1.14 or later"),
    ("ztnode for what it has not", CONTROLLER + "engine ztnode", BOTH,
     f"{P} network-id 89e92ceee5000001 needs zerotier-one, because ztnode has no controller and this router itself is "
     "the controller of that network; set engine auto"),
    ("ztnode alone for what it has not", CONTROLLER, OURS,
     f"{P} network-id 89e92ceee5000001 needs zerotier-one, because ztnode has no controller and this router itself is "
     "the controller of that network; install zerotier-one 1.14 or later"),
    ("ztnode for what a controller manages", EXAMPLE + "engine ztnode\nnetwork 8056c2e21c000001 allow-dns", BOTH,
     f"{P} network 8056c2e21c000001 allow-dns needs zerotier-one, because ztnode sets no addresses and routes of a controller; "
     "set engine auto"),
    ("too many addresses for ztnode", LISTEN + "engine ztnode", BOTH,
     f"{P} instance 2 listen-address needs zerotier-one, because ztnode binds at most 32 addresses; set engine auto"),
    ("too many prefixes for ztnode", PREFIXES + "engine ztnode", OURS,
     f"{P} remote needs zerotier-one, because ztnode keeps at most 512 prefixes off the underlay; install zerotier-one 1.14 or later"),
    ("ztnode without its package", EXAMPLE + "engine ztnode", STOCK,
     f"{P} engine ztnode: ztnode is not installed (zerotier-one found); install its package or set engine auto"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "engines", "sentence"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_one_sentence_where_no_engine_fits(config: str, engines: dict, sentence: str) -> None:
    assert choose_engine(bundle(config), engines, OWN) is None
    assert [str(problem) for problem in engine_problems(bundle(config), engines, OWN)] == [sentence]


# An instance that is the controller of other networks; its own bundle needs nothing of it.
OTHERS = {**OWN, "aaaaaaaaa2": "zt0/2", "aaaaaaaaa2000001": "zt0/2", "aaaaaaaaa2000002": "zt0/2", "aaaaaaaaa3000001": "zt0/3"}
ENDS = (
    f"{P} engine {{engine}}: zt0/2 is the controller of aaaaaaaaa2000001, aaaaaaaaa2000002, and ztnode has none, so nobody answers "
    f"the members any more; {{remedy}}, or remove {names.HOME_ROOT}/zt0/2/controller.d if nobody needs it"
)
CONTROLS = [
    ("both installed", "", BOTH,
     Choice("/sbin/zerotier-one", "auto: zt0/2 is the controller of aaaaaaaaa2000001, aaaaaaaaa2000002"), None),
    ("what the bundle needs comes first", "network 8056c2e21c000001 allow-managed", BOTH,
     Choice("/sbin/zerotier-one", "auto: network 8056c2e21c000001 allow-managed needs it"), None),
    ("ztnode alone keeps the link", "", OURS, Choice("/sbin/ztnode", "auto"), ("auto", "install zerotier-one 1.14 or later")),
    ("configured ztnode", "engine ztnode", BOTH, Choice("/sbin/ztnode"), ("ztnode", "set engine auto")),
    ("configured ztnode alone", "engine ztnode", OURS, Choice("/sbin/ztnode"),
     ("ztnode", "install zerotier-one 1.14 or later and set engine auto")),
    ("configured zerotier-one", "engine zerotier-one", BOTH, Choice("/sbin/zerotier-one"), None),
    ("a bundle that nobody else reaches", "controller-free", BOTH, Choice("/sbin/ztnode", "auto"), None),
    ("a disabled one", "engine ztnode\ndisable", BOTH, Choice("/sbin/ztnode"), None),
]  # fmt: skip


@pytest.mark.parametrize(("line", "engines", "choice", "told"), [case[1:] for case in CONTROLS], ids=[case[0] for case in CONTROLS])
def test_the_controller_of_others_goes_on(line: str, engines: dict, choice: Choice, told: tuple[str, str] | None) -> None:
    """Moved to another network, the bundle would run ztnode, and the members that it serves would be without a controller."""
    given = bundle(EXAMPLE + line)
    assert choose_engine(given, engines, OTHERS) == choice
    assert not list(engine_problems(given, engines, OTHERS))
    found = warnings(given, BoxFacts(tuple(Cpu(n, n) for n in range(4)), engines, own_addresses=OTHERS))
    assert [text for text in found if " engine " in text] == ([ENDS.format(engine=told[0], remedy=told[1])] if told else [])


def test_a_commit_sees_the_controller(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(names, "HOME_ROOT", tmp_path / "config")
    monkeypatch.setattr(names, "RUN_DIR", tmp_path / "run")
    monkeypatch.setattr(facts.box, "find_engines", lambda: BOTH)
    monkeypatch.setattr(facts.box, "has_tun", lambda: True)
    monkeypatch.setattr(facts.box, "taken_ports", lambda _ports: {})
    for module, name in ((facts, "device_addresses"), (commit, "device_addresses"), (facts, "_vrfs"), (facts, "_foreign_nexthops")):
        monkeypatch.setattr(module, name, dict)
    monkeypatch.setattr(facts.systemd, "running_ports", set)
    monkeypatch.setattr(commit, "read_hosts", dict)
    networks = names.HOME_ROOT / "zt0/2/controller.d/network"
    networks.mkdir(parents=True)
    (networks / "aaaaaaaaa2000001.json").write_text("{}")
    (names.HOME_ROOT / "zt0/2/identity.secret").write_text(f"aaaaaaaaa2:0:{'ab' * 64}:{'cd' * 64}\n")
    lines = configured("zt0 instances 2\nzt0 network-id 8056c2e21c000001\n")
    found = commit.check("zt0", lines)
    assert found.plan and found.plan.engine_reason == "auto: zt0/2 is the controller of aaaaaaaaa2000001"
    assert not [text for text in found.warnings if " engine " in text]


def test_the_networks_of_a_node_are_in_its_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a node that the home had before are nobody's any more."""
    homes = {k: tmp_path / str(k) for k in (1, 2, 3)}
    for k, home in homes.items():
        home.mkdir()
        (home / "identity.secret").write_text(f"aaaaaaaaa{k}:0:{'ab' * 64}:{'cd' * 64}")
    networks = homes[2] / "controller.d/network"
    (networks / "aaaaaaaaa2000001").mkdir(parents=True)
    for name in ("aaaaaaaaa2000001.json", "bbbbbbbbb2000001.json", "aaaaaaaaa2.json", ".aaaaaaaaa2000003.json.77"):
        (networks / name).write_text("{}")
    (homes[3] / "controller.d").write_text("no directory")
    assert facts._own_addresses(bundle(EXAMPLE), homes) == {
        "aaaaaaaaa1": "zt0/1", "aaaaaaaaa2": "zt0/2", "aaaaaaaaa2000001": "zt0/2", "aaaaaaaaa3": "zt0/3"
    }  # fmt: skip

    def damaged(*_given: object) -> list[str]:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(facts, "controlled", damaged)
    assert facts._own_addresses(bundle(EXAMPLE), homes) == {f"aaaaaaaaa{k}": f"zt0/{k}" for k in homes}


def test_the_limits_are_those_of_the_program() -> None:
    defined = dict(re.findall(r"^#define (MAX_\w+) (\d+)$", SETTINGS_H.read_text(), re.MULTILINE))
    assert (engine_choice.MAX_LISTEN, engine_choice.MAX_PREFIXES) == (int(defined["MAX_BINDS"]), int(defined["MAX_PREFIXES"]))


@pytest.mark.parametrize(("reason", "shown"), [("auto: X needs it", "zerotier-one (auto: X needs it)"), ("", "zerotier-one")])
def test_show_names_the_engine_and_the_reason(reason: str, shown: str) -> None:
    plan = make_plan(bundle(EXAMPLE), tuple(Cpu(n, n) for n in range(4)), "/usr/sbin/zerotier-one", 0, reason)
    seen = box(plan)
    found = data.bundle(seen, seen.plans[0])
    assert found["engine_reason"] == (reason or None)
    assert re.search(r"^ *Engine:? +(.*)$", text.bundle(found, False), re.MULTILINE)[1] == shown
