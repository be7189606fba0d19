#!/usr/bin/python3
"""Op mode of ``show zerotier``: arguments in, text out; all that is shown is the library's."""

import argparse
import json
import socket
import sys

from zerotier_multi import show


def show_identity(raw, bundle, name=None):
    plan = show.plan_of(bundle)
    if raw:
        return show.identities(plan)
    return show.identity_commands(plan, name or socket.gethostname())


def main():
    parser = argparse.ArgumentParser(prog='zerotier.py')
    verbs = parser.add_subparsers(dest='verb', required=True)
    identity = verbs.add_parser('show_identity', help='set lines that make this router known to the other one')
    identity.add_argument('--bundle', required=True)
    identity.add_argument('--name', help='name of this router in them (default: its host name)')
    identity.add_argument('--raw', action='store_true', help='as JSON')
    arguments = parser.parse_args()
    try:
        found = show_identity(arguments.raw, arguments.bundle, arguments.name)
    except show.ShowError as error:
        sys.exit(str(error))
    print(json.dumps(found, indent=1) if arguments.raw else found, end='\n' if arguments.raw else '')


if __name__ == '__main__':
    main()
