"""How vyos-1x knows ztN: the files of this repository that go into it, and the edits to its own."""

from __future__ import annotations

from dataclasses import dataclass

from builder.edits import Edit


@dataclass(frozen=True)
class Folder:
    """Files of ours that match ``pattern`` below ``source``; they go below ``target`` in vyos-1x."""

    source: str
    target: str
    pattern: str


FOLDERS = (
    Folder("interface-definitions", "interface-definitions", "*.xml.in"),
    Folder("op-mode-definitions", "op-mode-definitions", "*.xml.in"),
    Folder("src", "src", "conf_mode/*.py"),
    Folder("src", "src", "op_mode/*.py"),
    Folder("src", "src", "completion/*"),
    Folder("src", "src", "validators/*"),
    Folder("python", "python", "zerotier_multi/**/*.py"),
    Folder("interface-definitions", "python/zerotier_multi", "interfaces_zerotier.xml.in"),  # the library reads ranges there
    Folder("smoketest/scripts/cli", "smoketest/scripts/cli", "*.py"),
    Folder("packages/zerotier-multi/systemd", "src/systemd", "*.service"),
    Folder("packages/zerotier-multi/network", "src/etc/systemd/network", "05-*"),
    # What only a vyos-1x tree needs, at the places that it has there.
    Folder("vyos-build/vyos-1x", ".", "**/*"),
)


_REDACTED = """\
    # Fixup for ZeroTier: API keys of controllers, and secret identities, which are nested under instances
    zerotier_base_path = ["interfaces", "zerotier"]
    zerotier_paths = [{"base_path": zerotier_base_path, "secret_path": ["controller", "api-key"], "func": __anonymize_password}]
    if config_tree.exists(zerotier_base_path):
        for z in config_tree.list_nodes(zerotier_base_path):
            identity = {"base_path": zerotier_base_path + [z, "instance"], "secret_path": ["identity", "secret"], "func": __anonymize_key}
            zerotier_paths.append(identity)

    secret_paths = secret_paths + zerotier_paths

"""


def _interface_name(name: str) -> Edit:
    return Edit(
        path=f"interface-definitions/include/constraint/{name}",
        reason="ztN is accepted as an interface before its device exists, as at boot",
        anchor=r"\|wwan\)",
        replacement="|wwan|zt)",
    )


EDITS = (
    Edit(
        path="python/vyos/ifconfig/__init__.py",
        reason="'show interfaces' and everything else that asks for an interface's section knows ztN",
        anchor=r"^from vyos\.ifconfig\.sstpc import SSTPCIf$",
        replacement=r"\g<0>\nfrom vyos.ifconfig.zerotier import ZeroTierIf",
    ),
    _interface_name("interface-name.xml.i"),
    _interface_name("interface-name-with-wildcard.xml.i"),
    Edit(
        path="src/helpers/strip-private.py",
        reason="'strip-private' hides the API key of a controller",
        anchor=r"^( +)# Strip WireGuard private-key$",
        replacement=r"\1# Strip API keys of ZeroTier controllers\n"
        r"\1(True, re.compile(r'api-key \\S+'), 'api-key xxxxxx'),\n\g<0>",
    ),
    Edit(
        path="python/vyos/utils/strip_config.py",
        reason="'generate tech-support archive' has no API key and no secret identity in it",
        anchor=r"^    return secret_paths$",
        replacement=_REDACTED + r"\g<0>",
    ),
    Edit(
        path="python/vyos/configdict.py",
        reason="VyOS sets up no mirror of a bundle by tc beside the one of zerotier-pathd",
        anchor=r"^( +)iftype_base = base \+ \[iftype\]$",
        replacement=r"\1if iftype == 'zerotier':\n\1    continue # zerotier-pathd makes these mirrors\n\g<0>",
    ),
    Edit(
        path="interface-definitions/xml-component-version.xml.in",
        reason="saved configurations carry the version of our syntax, for migrations to come",
        anchor=r"^  #include <include/version/webproxy-version\.xml\.i>$",
        replacement=r"\g<0>\n  #include <include/version/zerotier-version.xml.i>",
    ),
    Edit(
        path="python/setup.py",
        reason="the library is installed beside the package vyos",
        anchor=r"packages = packages\('vyos'\)",
        replacement=r"\g<0> + packages('zerotier_multi'),\n    package_data = {'zerotier_multi': ['*.xml.in']}",
    ),
    Edit(
        path="debian/control",
        reason="zerotier-pathd gets the module through which it reports to systemd",
        anchor=r"^Package: vyos-1x\n(?:.+\n)*?Depends:\n",
        replacement=r"\g<0>  python3-systemd,\n",
    ),
    Edit(
        path="debian/control",
        reason="the add-on package, which has the same files, is kept out",
        anchor=r"^Package: vyos-1x\n",
        replacement=r"\g<0>Conflicts: zerotier-multi\nReplaces: zerotier-multi\nProvides: zerotier-multi\n",
    ),
)
