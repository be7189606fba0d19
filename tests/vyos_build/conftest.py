"""Shared by the tests of the image builder: its package, and small trees like VyOS's to try it on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "vyos-build"))

NAMES = "(veth|wlan|wwan)"
STRIP_PRIVATE = """\
import re, sys
if __name__ == "__main__":
    rules = [
        # Strip WireGuard private-key
        (True, re.compile(r'private-key \\S+'), 'private-key xxxxxx'),
    ]
    for line in sys.stdin:
        for condition, regexp, subst in rules:
            line = regexp.sub(subst, line)
        print(line, end='')
"""
STRIP_CONFIG = """\
def __anonymize_password(v):
    return "<PASSWORD REDACTED>"

def __anonymize_key(v):
    return "<KEY DATA REDACTED>"

def __prepare_secret_paths(config_tree, secret_paths):
    return secret_paths

def strip_config_tree(config_tree):
    for sp in __prepare_secret_paths(config_tree, []):
        for node in config_tree.list_nodes(sp["base_path"]) if config_tree.exists(sp["base_path"]) else ():
            path = sp["base_path"] + [node] + sp["secret_path"]
            if config_tree.exists(path):
                config_tree.set(path, value=sp["func"](config_tree.return_value(path)))
"""
CONFIGDICT = """\
def is_mirror_intf(conf, interface):
    found = None
    base = ['interfaces']
    for dir in ['ingress', 'egress']:
        for iftype in conf.list_nodes(base):
            iftype_base = base + [iftype]
            for intf in conf.list_nodes(iftype_base):
                if conf.exists(iftype_base + [intf, 'mirror', dir, interface]):
                    found = {intf: {}}
    return found
"""
# As little of vyos-1x as the edits need.
VYOS_1X = {
    "python/vyos/ifconfig/__init__.py": "from vyos.ifconfig.wwan import WWANIf\nfrom vyos.ifconfig.sstpc import SSTPCIf\n",
    "interface-definitions/include/constraint/interface-name.xml.i": f"<regex>{NAMES}[0-9]+|lo</regex>\n",
    "interface-definitions/include/constraint/interface-name-with-wildcard.xml.i": f"<regex>{NAMES}(.+)?</regex>\n",
    "interface-definitions/xml-component-version.xml.in": "<interfaceDefinition>\n  #include <include/version/webproxy-version.xml.i>\n</interfaceDefinition>\n",
    "src/helpers/strip-private.py": STRIP_PRIVATE,
    "python/vyos/utils/strip_config.py": STRIP_CONFIG,
    "python/vyos/configdict.py": CONFIGDICT,
    "python/setup.py": "setup(\n    packages = packages('vyos'),\n)\n",
    "debian/control": "Source: vyos-1x\n\nPackage: vyos-1x\nArchitecture: amd64\nDepends:\n  dialog,\n\n"
    "Package: vyos-1x-smoketest\nDepends:\n  vyos-1x\n",
    ".gitignore": "build/\n",
}

VYOS_BUILD = {
    "data/defaults.toml": 'vyos_branch = "circinus"\nrelease_train = "circinus"\ndebian_distribution = "bookworm"\n'
    'vyos_mirror = "http://127.0.0.1:9/vyos"\ndebian_mirror = "http://127.0.0.1:9/debian"\n'
    'debian_security_mirror = "http://127.0.0.1:9/security"\n',
    "data/architectures/amd64.toml": 'packages = ["grub-pc"]\n',
    "data/live-build-config/archives/vyos-dev.pref.chroot": "Package: *\n",
    "build/vyos-1x/data/config.boot.default": 'system {\n    host-name "vyos"\n    login {\n        user vyos {\n        }\n    }\n}\n',
}

RULES = """#!/usr/bin/make -f
clean build binary-arch:
binary binary-indep:
{body}
"""
# As little of debian/rules as makes a package, with dpkg's own programs.
PACK = """\
	mkdir -p debian/{name}/DEBIAN debian/{name}/usr/share/{name}
	{command} > debian/{name}/usr/share/{name}/said
	dpkg-gencontrol -p{name} -Pdebian/{name}
	dpkg-deb --build --root-owner-group debian/{name} ..
"""
Maker = Callable[..., Path]


def git(tree: Path, *words: str) -> str:
    """git in a tree, with a name and without anybody's configuration."""
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    command = ["git", "-C", str(tree), *who, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def write(tree: Path, files: dict[str, str]) -> Path:
    """Files below a directory."""
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    return tree


@pytest.fixture
def vyos_1x(tmp_path: Path) -> Callable[[str], Path]:
    """Makes git work trees that look like vyos-1x to the overlay, each with the same single commit."""

    def make(name: str) -> Path:
        tree = write(tmp_path / name, VYOS_1X)
        git(tree, "init", "--quiet")
        git(tree, "add", "--all")
        git(tree, "commit", "--quiet", "--message=base", "--date=2024-10-21T00:00:00Z")
        return tree

    return make


@pytest.fixture
def vyos_build(tmp_path: Path) -> Path:
    """A directory that looks like vyos-build for circinus, with the vyos-1x that it wants inside."""
    return write(tmp_path / "vyos-build", VYOS_BUILD)


@pytest.fixture
def checkout(tmp_path: Path) -> Maker:
    """Makes git checkouts with native Debian packaging, of one package each that is named as the source."""

    def make(name: str, head: str = "", package: str = "", command: str = "echo built", version: str = "1.0") -> Path:
        tree = write(tmp_path / "sources" / name, {
            "debian/control":
                f"Source: {name}\nMaintainer: Test <test@example.com>\nStandards-Version: 4.6.2\n{head}\n"
                f"Package: {name}\nArchitecture: all\n{package}Description: test\n",
            "debian/changelog":
                f"{name} ({version}) stable; urgency=medium\n\n  * One.\n\n"
                " -- Test <test@example.com>  Mon, 21 Oct 2024 00:00:00 +0000\n",
            "debian/rules": RULES.format(body=PACK.format(name=name, command=command)),
            "debian/source/format": "3.0 (native)\n",
            ".gitignore": "stale\n",
        })  # fmt: skip
        (tree / "debian/rules").chmod(0o755)
        git(tree, "init", "--quiet")
        git(tree, "add", "--all")
        git(tree, "commit", "--quiet", "--message=base")
        return tree

    return make
