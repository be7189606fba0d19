#!/usr/bin/python3 -I
"""Op mode of ``zerotier benchmark ztN``; all that is measured and shown is the library's."""

import argparse
import json
import sys

from zerotier_multi.op.arguments import with_values
from zerotier_multi.op.benchmark.drive import measure
from zerotier_multi.op.benchmark.serve import serve
from zerotier_multi.op.benchmark.text import text
from zerotier_multi.op.errors import OpError

if __name__ == '__main__':
    parser = argparse.ArgumentParser(prog='zerotier_benchmark.py', description='Measure the paths to a remote.')
    parser.add_argument('--bundle', required=True)
    parser.add_argument('--raw', action='store_true')
    parser.add_argument('--duration')
    role = parser.add_mutually_exclusive_group(required=True)
    role.add_argument('--remote')
    role.add_argument('--server', action='store_true')
    arguments = parser.parse_args(with_values(sys.argv[1:]))
    try:
        if arguments.server:
            serve(arguments.bundle)
        else:
            found = measure(arguments.bundle, arguments.remote, arguments.duration)
            print(json.dumps(found, indent=4) if arguments.raw else text(found))
    except OpError as error:
        print(error)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
