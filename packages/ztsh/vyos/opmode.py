"""What op mode scripts call: their functions become commands, and their errors one sentence."""

import argparse
import inspect
import json
import re
import sys
import typing


class Error(Exception):
    """An operation that failed."""


class UnconfiguredSubsystem(Error):
    """What it needs is not configured."""


class DataUnavailable(Error):
    """The data is not available now."""


class PermissionDenied(Error):
    """The caller may not do it."""


class InsufficientResources(Error):
    """The system has not enough of something."""


class UnsupportedOperation(Error):
    """It is not implemented."""


class IncorrectValue(Error):
    """An argument has a wrong value."""


class CommitInProgress(Error):
    """A commit is in progress."""


class InternalError(Error):
    """A bug."""


_VERB = re.compile(r'(show|clear|reset|restart|add|update|delete|generate|set|renew|release)')


def _tells(name):
    return name.startswith(('show', 'generate'))


def _add_argument(parser, name, hint):
    optional = type(None) in typing.get_args(hint)
    kind = next((t for t in typing.get_args(hint) if t is not type(None)), None) if optional else hint
    option = '--' + name.replace('_', '-')
    if kind is bool:
        parser.add_argument(option, action='store_true')
    elif typing.get_origin(kind) is typing.Literal:
        parser.add_argument(option, choices=typing.get_args(kind), required=not optional)
    else:
        parser.add_argument(option, type=kind, required=not optional)


def run(module):
    """Call the function that the arguments name; what it tells as text, or with ``--raw`` as JSON."""
    functions = {name: f for name, f in inspect.getmembers(module, inspect.isfunction) if _VERB.match(name)}
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest='subcommand')
    for name, function in functions.items():
        command = commands.add_parser(name, help=function.__doc__)
        for argument, hint in typing.get_type_hints(function).items():
            if argument != 'return':
                _add_argument(command, argument, hint)
    arguments = vars(parser.parse_args())
    name = arguments.pop('subcommand')
    if not name:
        print('Subcommand required!')
        parser.print_usage()
        sys.exit(1)
    if not _tells(name):
        return functions[name](**arguments)
    arguments.setdefault('raw', False)
    told = functions[name](**arguments)
    if not arguments['raw']:
        return told
    if not isinstance(told, dict | list):
        raise InternalError(f'raw output must be a list or a dict, not {type(told).__name__}')
    return json.dumps(_normalized(told), indent=4)


def _normalized(told):
    """With the names of fields as VyOS has them in raw output: lower case, words joined by underscores."""
    if isinstance(told, list):
        return [_normalized(value) for value in told]
    if not isinstance(told, dict):
        return told
    result = {_field(name): _normalized(value) for name, value in told.items()}
    if len(result) != len(told):
        raise InternalError(f'the fields {", ".join(map(str, told))} would have the same names in raw output')
    return result


def _field(name):
    name = str(name)
    if not name.isupper():
        name = re.sub(r'(?<=[^0-9A-Z_])(?=[A-Z])', '_', name)
    for character, word in (('@', '_at_'), ('%', '_percentage_'), ('~', '_tilde_')):
        name = name.replace(character, word)
    return re.sub(r'[\s()\[\]{}\-.,:"\'`_]+', '_', name).strip('_').lower()
