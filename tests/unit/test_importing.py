"""What runs ZeroTier elsewhere becomes set lines that commit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.configuration import bundle
from tests.unit.test_world import ADDRESS, EARTH, MKWORLD, PUBLIC, ROOT, planet, text
from zerotier_multi import names
from zerotier_multi.homes import own_identity
from zerotier_multi.identity import PublicIdentity
from zerotier_multi.importing.openwrt import read_uci
from zerotier_multi.importing.lines import commands, read_source
from zerotier_multi.importing.process import ImportProblem
from zerotier_multi.op import api, gather
from zerotier_multi.local_conf import local_conf
from zerotier_multi.cpu import Cpu
from zerotier_multi.plan import to_json
from zerotier_multi.planet import make_planet
from zerotier_multi.planner import make_plan

NETWORK = "8056c2e21c000001"
BASE = "set interfaces zerotier zt0"
COPY = """sudo sh -c '[ -e "$1" ] && { echo "$1 exists"; exit 1; }; install -D -m 0600 "$0" "$1"'"""
REST = "transit prefix 10.14.0.0/28\ntransit site 1\nremote R2 prefix 10.0.55.2/32\n"
LOCAL_CONF = {
    "physical": {"192.0.2.0/24": {"blacklist": True}, "198.51.100.0/24": {"mtu": 1400, "trustedPathId": 7}},
    "virtual": {"0123456789": {"try": ["192.0.2.1/9993"], "blacklist": ["203.0.113.0/24"]}},
    "settings": {
        "primaryPort": 9995,
        "allowSecondaryPort": False,
        "portMappingEnabled": True,
        "allowTcpFallbackRelay": False,
        "interfacePrefixBlacklist": ["zt", "wg", "eth3"],
        "allowManagementFrom": ["127.0.0.1", "192.0.2.0/24"],
        "softwareUpdate": "disable",
        "defaultBondingPolicy": "fast",
        "policies": {
            "fast": {"basePolicy": "active-backup", "failoverInterval": 300, "links": {"eth0": {"mode": "primary", "ipvPref": 4}}}
        },
        "ssoRedirectURL": "https://sso.example.org",
    },
}


def home(path: Path, conf: dict | None = None, networks: tuple[str, ...] = (NETWORK,)) -> Path:
    (path / "networks.d").mkdir(parents=True)
    (path / "identity.secret").write_text("0123456789:0:secret")
    for network in networks:
        (path / "networks.d" / f"{network}.conf").write_text("")
    if conf is not None:
        (path / "local.conf").write_text(json.dumps(conf))
    return path


def imported(path: Path) -> list[str]:
    return commands(read_source(path))


def commits(lines: list[str], name: str = "zt0") -> object:
    """The configuration of the lines parses, and makes a plan."""
    prefix = f"set interfaces zerotier {name} "
    own = [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]
    return make_plan(bundle("\n".join(own) + "\n" + REST), tuple(Cpu(n, n) for n in range(4)), "/usr/sbin/zerotier-one")


def test_a_home_with_everything(tmp_path: Path) -> None:
    found = imported(home(tmp_path / "zerotier-one", LOCAL_CONF))
    assert [line for line in found if not line.startswith("#")] == [
        f"{BASE} instances 1",
        f"{BASE} network-id {NETWORK}",
        f"{BASE} primary port 9995",
        f"{BASE} network-config 192.0.2.0/24 blacklist",
        f"{BASE} network-config 198.51.100.0/24 mtu 1400",
        f"{BASE} network-config 198.51.100.0/24 trusted-path 7",
        f"{BASE} peer-config 0123456789 try 192.0.2.1/9993",
        f"{BASE} peer-config 0123456789 blacklist 203.0.113.0/24",
        f"{BASE} enable-port-mapping",
        f"{BASE} disable-tcp-fallback",
        f"{BASE} interface-blacklist eth3",
        f"{BASE} allow-mgmt-from 192.0.2.0/24",
        f"{BASE} bonding-policy fast",
        f"{BASE} custom-policy fast base-policy active-backup",
        f"{BASE} custom-policy fast failover-interval 300",
        f"{BASE} custom-policy fast links eth0 mode primary",
        f"{BASE} custom-policy fast links eth0 ip-pref 4",
    ]
    assert "# settings.ssoRedirectURL of local.conf has no setting" in found
    assert found[-1].endswith(f"{COPY} {tmp_path}/zerotier-one/identity.secret /config/zerotier-multi/zt0/1/identity.secret")
    plan = commits(found)
    made = json.loads(local_conf(plan, plan.instances[0]))
    for part in ("virtual", "physical"):
        for key, value in LOCAL_CONF[part].items():
            assert made[part][key] == value
    assert made["settings"]["policies"] == LOCAL_CONF["settings"]["policies"]


def test_a_home_of_ours_has_no_second_port(tmp_path: Path) -> None:
    """Its local.conf names one that zerotier-one does not use."""
    plan = make_plan(bundle(f"instances 1\nnetwork-id {NETWORK}\n{REST}"), (Cpu(0, 0),), "/usr/sbin/zerotier-one")
    conf = json.loads(local_conf(plan, plan.instances[0]))
    assert conf["settings"]["secondaryPort"] == conf["settings"]["primaryPort"]
    assert not any("secondary port" in line for line in imported(home(tmp_path / "1", conf)))


def test_several_homes_are_the_instances_of_one_bundle(tmp_path: Path) -> None:
    for k in (1, 2, 10):
        home(tmp_path / f"zt{k}", {"settings": {"primaryPort": 9990 + k, "lowBandwidthMode": k == 2}})
    found = imported(tmp_path)
    assert found[:5] == [
        f"{BASE} instances 3", f"{BASE} network-id {NETWORK}",
        f"{BASE} instance 1 port 9991", f"{BASE} instance 2 port 9992", f"{BASE} instance 3 port 10000",
    ]  # fmt: skip
    assert "# zt2: differs from the first process: low-bandwidth-mode" in found
    commits(found)


@pytest.mark.parametrize("without", [1, 3])
def test_a_home_that_has_joined_no_network_is_on_none(tmp_path: Path, without: int) -> None:
    for k in (1, 2, 3):
        home(tmp_path / f"zt{k}", networks=() if k == without else (NETWORK,))
    found = imported(tmp_path)
    assert [line for line in found if " network-id " in line or "no network" in line] == [
        f"# zt{k} has joined no network" if k == without else f"{BASE} instance {k} network-id {NETWORK}" for k in (1, 2, 3)
    ]


def test_two_networks_and_addresses_of_a_controller(tmp_path: Path) -> None:
    path = home(tmp_path / "z", networks=(NETWORK, "8056c2e21c000002"))
    (path / "networks.d" / f"{NETWORK}.local.conf").write_text("allowManaged=1\nallowGlobal=0\n")
    (path / "zerotier-one.port").write_text("9993")
    found = imported(path)
    assert f"{BASE} primary port 9993" in found
    assert [line for line in found if " network-id " in line] == [f"{BASE} network-id {n}" for n in (NETWORK, "8056c2e21c000002")]
    assert (
        f"# network {NETWORK} took addresses and routes from its controller; set address, transit and remote instead, "
        f"or network {NETWORK} allow-managed"
    ) in found
    commits(found)


def took(network: str) -> str:
    return (
        f"# network {network} took addresses and routes from its controller; set address, transit and remote instead, "
        f"or network {network} allow-managed"
    )


@pytest.mark.parametrize(("settings", "told"), [
    (None, [took(NETWORK)]),
    ("allowGlobal=0\n", [took(NETWORK)]),
    ("allowManaged=0\n", []),
    ("allowManaged=0\nallowDNS=1\n",
     [f"# allowDNS of {NETWORK} is not taken over; if its controller is to do that again, set network {NETWORK} allow-dns"]),
])  # fmt: skip
def test_what_a_controller_might_do_is_said_also_where_it_is_the_default(
    tmp_path: Path, settings: str | None, told: list[str]
) -> None:
    path = home(tmp_path / "z")
    if settings is not None:
        (path / "networks.d" / f"{NETWORK}.local.conf").write_text(settings)
    assert [line for line in imported(path) if NETWORK in line and line.startswith("#")] == told


def test_on_openwrt_too(tmp_path: Path) -> None:
    for uci, said in (
        (OLD_UCI, True),
        (NEW_UCI, True),
        (NEW_UCI.replace("\toption allow_managed '1'\n", ""), True),
        (NEW_UCI.replace("allow_managed '1'", "allow_managed '0'"), False),
    ):
        (tmp_path / "zerotier").write_text(uci)
        assert (took(NETWORK) in imported(tmp_path / "zerotier")) == said


def test_the_home_of_a_controller_keeps_its_identity_for_itself(tmp_path: Path) -> None:
    """Its networks have the node in their IDs, and nothing here would answer their members."""
    path = home(tmp_path / "z")
    (path / "controller.d/network").mkdir(parents=True)
    assert any("Keep its node" in line for line in imported(path))
    for name in ("0123456789aaaaaa.json", "0123456789bbbbbb.json", "other"):
        (path / "controller.d/network" / name).write_text("{}")
    found = imported(path)
    (told,) = [line for line in found if "has the controller" in line]
    assert told == (
        f"# {path} has the controller of 0123456789aaaaaa, 0123456789bbbbbb, and no instance here is one: leave that zerotier-one "
        "running with its identity, and let this router have a new node (and another port, where both run here)"
    )
    assert not any("identity.secret" in line for line in found)
    commits(found)


def test_the_roots_of_a_self_hosted_network_come_along(tmp_path: Path) -> None:
    """Private planets often have the id of ZeroTier's own, and its time of 2019: the key tells them apart."""
    path = home(tmp_path / "z")
    (path / "planet").write_bytes(PUBLIC)
    assert not any("planet" in line for line in imported(path))
    private = planet(ROOT + b"\x01" + ADDRESS, number=EARTH, at=MKWORLD)
    (path / "planet").write_bytes(private)
    found = imported(path)
    assert f"{BASE} planet {text(private)}" in found
    commits(found)
    (path / "planet").write_bytes(private[:-1])
    assert f"# {path}/planet is not taken over, because it is no planet (it is truncated)" in imported(path)
    (path / "planet").write_bytes(make_planet(NETWORK, PublicIdentity("89e92ceee5", bytes(64))))
    assert not any("planet" in line for line in imported(path))  # of controller-free mode, which makes its own


def test_further_networks_of_several_processes_are_named(tmp_path: Path) -> None:
    for name in ("z1", "z2"):
        home(tmp_path / name, networks=(NETWORK, "8056c2e21c000002"))
    found = imported(tmp_path)
    assert "# z1: also joins 8056c2e21c000002: several instances have one network each; set another bundle for it" in found
    assert [line for line in found if " network-id " in line] == [f"{BASE} network-id {NETWORK}"]
    alone = imported(tmp_path / "z1")
    assert not any("also joins" in line for line in alone) and f"{BASE} network-id 8056c2e21c000002" in alone


SECRET = f"0123456789:0:{'aa' * 64}:{'bb' * 64}"
NEW_UCI = f"""
config zerotier 'global'
	# Sets whether ZeroTier is enabled or not
	option enabled 1
	option port '9994'
	option secret '{SECRET}'
	option config_path '/etc/zerotier'

config network 'earth'
	option id {NETWORK.upper()}
	option allow_managed '1'
"""
UCI = f"config zerotier 'global'\n\toption enabled 1\n\tlist join '{NETWORK}'\n\t{{}}\n"
OLD_UCI = f"config zerotier sample_config\n\toption enabled '0'\n\tlist join '{NETWORK}'\n\toption secret ''\n"


def test_openwrt(tmp_path: Path) -> None:
    (tmp_path / "zerotier").write_text(NEW_UCI)
    found = imported(tmp_path / "zerotier")
    assert found[:3] == [f"{BASE} instances 1", f"{BASE} network-id {NETWORK}", f"{BASE} primary port 9994"]
    assert not any("bbbb" in line or "/etc/zerotier/identity.secret" in line for line in found)
    target = "/config/zerotier-multi/zt0/1/identity.secret"
    assert found[-1] == (
        f"# Keep its node, before the first commit: {COPY} /dev/stdin {target}; then paste the value of option "
        f"secret of config zerotier global in {tmp_path}/zerotier without its quotes, and type Enter and Ctrl-D"
    )
    commits(found)
    command = found[-1].partition("sudo ")[2].partition("; then")[0].replace("/config", str(tmp_path))
    subprocess.run(command, shell=True, input=f"{SECRET}\n", text=True, check=True)
    made = Path(target.replace("/config", str(tmp_path)))
    assert own_identity(made.parent).address == "0123456789" and made.stat().st_mode & 0o777 == 0o600
    (tmp_path / "zerotier").write_text(NEW_UCI.replace(SECRET, ""))
    assert imported(tmp_path / "zerotier")[-1].endswith(f"{COPY} /etc/zerotier/identity.secret {target}")
    (tmp_path / "zerotier").write_text(NEW_UCI.replace("\toption enabled 1\n", ""))
    assert f"{BASE} disable" in imported(tmp_path / "zerotier"), "so it is where nothing is said"
    (tmp_path / "zerotier").write_text(OLD_UCI)
    found = imported(tmp_path / "zerotier")
    assert found[:3] == [f"{BASE} instances 1", f"{BASE} disable", f"{BASE} network-id {NETWORK}"]
    assert not any("identity.secret" in line for line in found), "it has none; a zerotier-one of this router is another node"


def test_a_container_per_interface(tmp_path: Path) -> None:
    lines = []
    for k in (1, 2):
        home(
            tmp_path / f"zt{k}",
            {"settings": {"primaryPort": 9992 + k, "allowSecondaryPort": False, "interfacePrefixBlacklist": ["zt"]}},
        )
        base = f"set container name zt{k}"
        lines += [f"{base} image 'zerotier/zerotier:1.14.2'", f"{base} arguments '{NETWORK}'", f"{base} allow-host-networks",
                  f"{base} volume home source '{tmp_path}/zt{k}'", f"{base} volume home destination '/var/lib/zerotier-one'"]  # fmt: skip
    lines += ["set container name web image 'nginx'", "set interfaces dummy dum0 address 10.0.55.1/32"]
    (tmp_path / "commands").write_text("\n".join(lines))
    found = imported(tmp_path / "commands")
    assert [line for line in found if not line.startswith("#")] == [
        f"{BASE} instances 2",
        f"{BASE} network-id {NETWORK}",
        f"{BASE} primary port 9993",
    ]
    commits(found)


def test_a_container_whose_home_is_elsewhere_is_taken_over_without_it(tmp_path: Path) -> None:
    source = _file(
        tmp_path,
        f"""container {{
    name zt1 {{
        arguments {NETWORK}
        disable
        image zerotier/zerotier:1.14.2
        volume away {{
            destination /var/lib/zerotier-one
        }}
        volume data {{
            destination /data
            source /config/data
        }}
        volume home {{
            destination /var/lib/zerotier-one/
            source /config/gone
        }}
    }}
    name zt2 {{
        arguments {NETWORK}
        image zerotier/zerotier:1.14.2
        volume data {{
            destination /data
            source /config/data
        }}
    }}
}}
""",
    )
    found = imported(source)
    assert [line for line in found if not line.startswith("#")] == [
        f"{BASE} instances 2",
        f"{BASE} instance 1 disable",
        f"{BASE} network-id {NETWORK}",
    ]
    assert "# zt1: /config/gone is not a home on this router; its local.conf and identity are not taken over" in found
    assert "# zt2: no volume has its home" in found
    assert [line.rpartition(" ")[0].rpartition(" ")[2] for line in found if "Keep its node" in line] == [
        "/config/gone/identity.secret"
    ]


def test_no_bundle_has_more_processes_than_it_may_have_instances(tmp_path: Path) -> None:
    for k in range(1, names.MAX_INSTANCES + 3):
        home(tmp_path / f"zt{k}")
    found = imported(tmp_path)
    assert found[0].startswith(f"# Only {names.MAX_INSTANCES} of {names.MAX_INSTANCES + 2} processes")
    assert f"{BASE} instances {names.MAX_INSTANCES}" in found and f"/zt0/{names.MAX_INSTANCES + 1}/" not in "".join(found)


def containers(path: Path, *lines: str, confs: tuple[dict | None, ...]) -> Path:
    """A configuration with containers zt1, zt2 ..., each with a home of that local.conf, and some more lines."""
    made: list[str] = []
    for k, conf in enumerate(confs, start=1):
        source = home(path / f"zt{k}", conf)
        base = f"set container name zt{k}"
        made += [f"{base} image 'zerotier/zerotier:1.14.2'", f"{base} volume home source '{source}'",
                 f"{base} volume home destination '/var/lib/zerotier-one'"]  # fmt: skip
    return _file(path, "\n".join([*made, *lines]))


def test_a_container_that_was_off_stays_off(tmp_path: Path) -> None:
    found = imported(containers(tmp_path, "set container name zt2 disable", confs=(None, None, None)))
    assert [line for line in found if "disable" in line] == [f"{BASE} instance 2 disable"]
    assert len(commits(found).instances) == 2
    source = containers(tmp_path / "all", *(f"set container name zt{k} disable" for k in (1, 2)), confs=(None, None))
    assert [line for line in imported(source) if "disable" in line] == [f"{BASE} disable"]


def test_what_only_the_first_process_had_is_told(tmp_path: Path) -> None:
    """A bundle has a setting for all its instances."""
    confs = ({"settings": {"lowBandwidthMode": True}}, {"settings": {"lowBandwidthMode": True}}, None)
    found = imported(containers(tmp_path, confs=confs))
    assert f"{BASE} low-bandwidth-mode" in found
    assert [line for line in found if "did not have" in line] == [
        "# zt3: did not have what the bundle gets from the first process: low-bandwidth-mode"
    ]


@pytest.mark.parametrize("key", ["primaryPort", "secondaryPort", "tertiaryPort"])
def test_a_port_of_0_is_no_port(tmp_path: Path, key: str) -> None:
    """It leaves the choice to zerotier-one; the definition has no such value."""
    found = imported(home(tmp_path / "z", {"settings": {key: 0}}))
    assert not any(" port " in line for line in found)
    several = imported(containers(tmp_path / "c", confs=({"settings": {key: 0}}, {"settings": {"primaryPort": 9994}})))
    assert [line for line in several if " port " in line] == [f"{BASE} instance 2 port 9994"]
    word = key.removesuffix("Port")
    native = _file(tmp_path, f"set interfaces zerotier zt0 network-id {NETWORK}\nset interfaces zerotier zt0 {word} port 0\n")
    assert not any(" port " in line for line in imported(native))


def test_a_bundle_of_this_router_and_its_identities_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "config.boot").write_text(PR4752)
    found = commands(read_source(tmp_path / "config.boot"), {"zt0", "zt3"})
    assert {line.split()[3] for line in found if line.startswith("set")} == {"zt1", "zt2"}
    assert [line for line in found if " instead of " in line] == [
        f"# {new} instead of {old}: names of bundles that this router has, or keeps identities of, are left out"
        for new, old in (("zt1", "zt3"), ("zt2", "zt0"))
    ]
    assert not any("/zerotier-multi/zt0/" in line or "/zerotier-multi/zt3/" in line for line in found)
    assert commands(read_source(tmp_path / "config.boot"), {"zt7"}) == imported(tmp_path / "config.boot")


def test_which_names_this_router_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of a plan, one of a plan that cannot be used, and one that was deleted and has its homes still."""
    (tmp_path / "run").mkdir()
    (tmp_path / "homes/zt2/1").mkdir(parents=True)
    plan = commits(imported(home(tmp_path / "a")))
    (tmp_path / "run/zt0.json").write_text(to_json(plan))
    (tmp_path / "run/zt1.json").write_text("{")
    monkeypatch.setattr(names, "RUN_DIR", tmp_path / "run")
    monkeypatch.setattr(names, "HOME_ROOT", tmp_path / "homes")
    monkeypatch.setattr(api, "require_root", lambda: None)
    assert gather.known_bundles() == {"zt0", "zt1", "zt2"}
    made = api.imported(True, str(tmp_path / "a"))
    assert "set interfaces zerotier zt3 instances 1" in made["commands"] and any(
        "instead of zt0" in line for line in made["remarks"]
    )


def test_an_identity_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    source = home(tmp_path / "z z")
    command = imported(source)[-1].partition("sudo ")[2].replace("/config", str(tmp_path))
    target = tmp_path / "zerotier-multi/zt0/1/identity.secret"
    subprocess.run(command, shell=True, check=True)
    assert target.read_text() == (source / "identity.secret").read_text() and target.stat().st_mode & 0o777 == 0o600
    target.write_text("another")
    refused = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert refused.returncode == 1 and refused.stdout == f"{target} exists\n" and target.read_text() == "another"


PR4752 = f"""interfaces {{
    zerotier zt3 {{
        bonding-policy fast
        custom-policy fast {{
            base-policy active-backup
            links eth0 {{
                mode primary
            }}
        }}
        controller-api-key s3cret
        description "to the lab"
        disable-secondary-port
        multipath-mode 1
        network-id {NETWORK}
        primary {{
            port 9993
        }}
        tcp-relay 192.0.2.9/443
    }}
    zerotier ztlab {{
        network-id 8056c2e21c000002
        primary {{
            port 9994
        }}
    }}
}}
"""


def test_the_configuration_of_4752(tmp_path: Path) -> None:
    (tmp_path / "config.boot").write_text(PR4752)
    found = imported(tmp_path / "config.boot")
    assert [line for line in found if not line.startswith("#")] == [
        "set interfaces zerotier zt3 instances 1",
        "set interfaces zerotier zt3 description 'to the lab'",
        f"set interfaces zerotier zt3 network-id {NETWORK}",
        "set interfaces zerotier zt3 primary port 9993",
        "set interfaces zerotier zt3 bonding-policy fast",
        "set interfaces zerotier zt3 custom-policy fast base-policy active-backup",
        "set interfaces zerotier zt3 custom-policy fast links eth0 mode primary",
        "set interfaces zerotier zt3 disable-secondary-port",
        "set interfaces zerotier zt3 tcp-relay 192.0.2.9/443",
        f"{BASE} instances 1",
        f"{BASE} network-id 8056c2e21c000002",
        f"{BASE} primary port 9994",
    ]
    assert "# controller-api-key is a secret; set controller type, url and api-key" in found and not any(
        "s3cret" in line for line in found
    )
    commits(found, "zt3".replace("3", "0"))


def test_what_4752_has_besides(tmp_path: Path) -> None:
    """A name of a bundle that there cannot be, addresses to listen at, one that is off, and what has no setting."""
    lines = [f"network-id {NETWORK}", "listen-address 198.51.100.1", "listen-address 2001:db8::1", "disable", "novelty 7"]
    found = imported(_file(tmp_path, "".join(f"set interfaces zerotier zt256 {line}\n" for line in lines)))
    assert [line for line in found if not line.startswith("#")] == [
        f"{BASE} instances 1",
        f"{BASE} disable",
        f"{BASE} network-id {NETWORK}",
        f"{BASE} instance 1 listen-address 198.51.100.1",
        f"{BASE} instance 1 listen-address 2001:db8::1",
    ]
    assert "# novelty 7 has no setting" in found and not any("multipath" in line for line in found)


def test_what_a_file_says_stays_one_quoted_word_of_one_line(tmp_path: Path) -> None:
    policies = {"x\nset system host-name owned": {"upDelay": 1}, "\x1b[2J": {"upDelay": 2}, "a; reboot": {"upDelay": 3}}
    found = imported(home(tmp_path / "z", {"settings": {"policies": policies, "tcpFallbackRelay": "$(reboot)"}}))
    assert all(line.isprintable() and line.startswith(("set interfaces zerotier zt0 ", "#")) for line in found)
    assert found.count("# A line with control characters is left out") == 2
    assert f"{BASE} custom-policy 'a; reboot' up-delay 3" in found and f"{BASE} tcp-relay '$(reboot)'" in found


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: path / "gone", "{path}/gone cannot be read (No such file or directory)"),
        (lambda path: path, "{path} is not a home of zerotier-one and has none below; give the directory that has identity.secret"),
        (lambda path: _file(path, "hello\n"), "{path}/file is not a known source; give a home of zerotier-one, OpenWrt's /etc/config/zerotier or a configuration of VyOS"),
        (lambda path: _file(path, "set interfaces ethernet eth0 address dhcp\n"), "the configuration has no container with ZeroTier and no interfaces zerotier; give another file"),
        (lambda path: _file(path, "interfaces {\n}\n}\n"), "line 3 closes a brace that is not open; correct it"),
        (lambda path: _file(path, "config zerotier 'x\n"), "line 1 is not of UCI's form (a quote is missing); correct it"),
        *((lambda path, text=text: _broken_home(path, text), "{path}/z/local.conf is not JSON, so zerotier-one ignores it too; correct or remove it")
          for text in ("{", "[" * 5000, '{"a":' * 5000)),
        *((lambda path, text=text: _broken_home(path, text), "{path}/z/local.conf is nested more than 16 levels deep, which no local.conf is; correct or remove it")
          for text in ('{"a":' * 900 + "1" + "}" * 900, '{"settings":{"interfacePrefixBlacklist":' + "[" * 900 + "]" * 900 + "}}")),
        (lambda path: _file(path, UCI.format("option local_conf_path /" + "x" * 5000)), "{path}/file cannot be read (File name too long)"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_in_one_sentence(tmp_path: Path, make, sentence: str) -> None:
    with pytest.raises(ImportProblem) as refused:
        imported(make(tmp_path))
    assert str(refused.value) == sentence.format(path=tmp_path)


def _file(path: Path, text: str) -> Path:
    (path / "file").write_text(text)
    return path / "file"


@pytest.mark.parametrize(("word", "on"), [
    ("1", True), ("on", True), ("true", True), ("yes", True), ("enabled", True), ("0", False), ("off", False), ("no", False),
])  # fmt: skip
def test_booleans_of_openwrt_have_several_words(word: str, on: bool) -> None:
    """config_get_bool of /lib/functions.sh takes them all."""
    text = f"config zerotier 'global'\n option enabled '{word}'\nconfig network 'n'\n option id '8056c2e21c000001'\n option enabled '{word}'\n"
    (process,) = read_uci(text, Path("/etc/config/zerotier"))
    assert (process.disabled, process.networks) == (not on, ("8056c2e21c000001",) if on else ())


def _broken_home(path: Path, text: str) -> Path:
    made = home(path / "z")
    (made / "local.conf").write_text(text)
    return made


@pytest.mark.parametrize("port", ["²", "-1", "65536", pytest.param("9" * 5000, id="long"), "0", "x"])
def test_what_is_no_port_is_none(tmp_path: Path, port: str) -> None:
    path = home(tmp_path / "z")
    (path / "zerotier-one.port").write_text(port)
    sources = [path, _file(tmp_path, UCI.format(f"option port {port}"))]
    for source in sources:
        assert f"{BASE} network-id {NETWORK}" in imported(source) and not any(" port " in line for line in imported(source))
    native = _file(tmp_path, f"set interfaces zerotier zt0 network-id {NETWORK}\nset interfaces zerotier zt0 primary port {port}\n")
    assert not any(" port " in line for line in imported(native))


@pytest.mark.parametrize("settings", [{"bind": 5}, {"bind": "192.0.2.1"}, {"bind": {"192.0.2.1": 1}}, {"primaryPort": True}])
def test_settings_of_another_kind_are_left_out(tmp_path: Path, settings: dict) -> None:
    assert not any("listen" in line or " port " in line for line in imported(home(tmp_path / "z", {"settings": settings})))


@pytest.mark.parametrize(
    "line",
    ["set container name a", "set container name a volume home source", "container { name a { volume home { destination } } }"],
)
def test_a_container_with_half_a_line_is_no_traceback(line: str, tmp_path: Path) -> None:
    path = tmp_path / "config.boot"
    whole = "set container name a image zerotier/zerotier\n"
    path.write_text(f"{line}\n{whole}" if line.startswith("set") else line)
    if line.startswith("set"):
        assert "no volume has its home" in "\n".join(imported(path))
    else:
        with pytest.raises(ImportProblem):
            imported(path)


def test_more_processes_than_there_are_bundles_are_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "zerotier"
    path.write_text("".join(f"config zerotier n{n}\n\tlist join 8056c2e21c000001\n" for n in range(names.MAX_BUNDLE + 2)))
    with pytest.raises(ImportProblem, match="more processes than bundles are free"):
        imported(path)
