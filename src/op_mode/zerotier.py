#!/usr/bin/python3 -I
"""Op mode of ZeroTier bundles: VyOS's calling convention, nothing else; all that is shown is the library's."""

import sys
import typing

import vyos.opmode
from zerotier_multi.op import actions, api, archives, arguments, errors

_KINDS = {
    errors.NotConfigured: vyos.opmode.UnconfiguredSubsystem,
    errors.WrongValue: vyos.opmode.IncorrectValue,
    errors.NotAllowed: vyos.opmode.PermissionDenied,
    errors.Unavailable: vyos.opmode.DataUnavailable,
}


def _ask(function, *arguments):
    """Call the library; its errors become VyOS's."""
    try:
        return function(*arguments)
    except errors.OpError as error:
        raise _KINDS.get(type(error), vyos.opmode.Error)(str(error)) from None


def show_summary(raw: bool):
    """All bundles"""
    return _ask(api.summary, raw)


def show_bundle(raw: bool, bundle: str):
    """One bundle in detail"""
    return _ask(api.bundle, raw, bundle)


def show_instances(raw: bool, bundle: str):
    """Instances of a bundle"""
    return _ask(api.instances, raw, bundle)


def show_paths(raw: bool, bundle: str):
    """Paths of a bundle"""
    return _ask(api.paths, raw, bundle)


def show_routes(raw: bool, bundle: str):
    """Routes of a bundle as the kernel has them"""
    return _ask(api.routes, raw, bundle)


def show_balance(raw: bool, bundle: str):
    """How traffic is spread over the paths"""
    return _ask(api.balance, raw, bundle)


def show_plan(raw: bool, bundle: str):
    """The plan as commands"""
    return _ask(api.plan, raw, bundle)


def show_identity(raw: bool, bundle: str, name: typing.Optional[str], everything: bool):
    """Set lines that make this router known to the other one"""
    return _ask(api.identities, raw, bundle, name, everything)


def show_invite(raw: bool, bundle: str, name: typing.Optional[str], everything: bool, qr: bool):
    """One set line that makes this router known to the other one"""
    return _ask(api.invite, raw, bundle, name, everything, qr)


def show_remotes(raw: bool, bundle: str):
    """What is known of the remotes"""
    return _ask(api.remotes, raw, bundle)


def show_interfaces(raw: bool, bundle: typing.Optional[str], detail: bool, statistics: bool):
    """Network devices of the bundles"""
    return _ask(api.interfaces, raw, bundle, detail, statistics)


def restart_bundle(bundle: str, instance: typing.Optional[str]):
    """Restart instances, one after the other"""
    _ask(actions.restart, bundle, instance)


def reset_identity(bundle: str, instance: typing.Optional[str], no_prompt: bool):
    """Delete identities and make new ones"""
    _ask(actions.reset_identity, bundle, instance, no_prompt)


def generate_identity(raw: bool):
    """Make an identity and print it"""
    found = _ask(actions.new_identity)
    return found if raw else actions.identity_text(found)


def generate_import(raw: bool, path: str):
    """Set lines for what runs ZeroTier elsewhere"""
    return _ask(api.imported, raw, path)


def generate_archive(raw: bool, path: str, bundle: typing.Optional[str], passphrase_file: typing.Optional[str]):
    """Write identities to an encrypted file"""
    found = _ask(archives.write_archive, path, bundle, passphrase_file)
    return found if raw else archives.archive_text(found)


def add_archive(path: str, bundle: typing.Optional[str], passphrase_file: typing.Optional[str], replace: bool):
    """Read identities from an encrypted file"""
    _ask(archives.read_archive, path, bundle, passphrase_file, replace)


if __name__ == '__main__':
    sys.argv[1:] = arguments.with_values(sys.argv[1:])
    try:
        res = vyos.opmode.run(sys.modules[__name__])
        if res:
            print(res)
    except (ValueError, vyos.opmode.Error) as e:
        print(e)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
