#!/usr/bin/python3 -I
"""Op mode of ``monitor zerotier ztN``; all that is shown is the library's."""

import argparse
import sys

from zerotier_multi.op.arguments import with_values
from zerotier_multi.op.errors import OpError
from zerotier_multi.op.monitor import monitor

if __name__ == '__main__':
    parser = argparse.ArgumentParser(prog='zerotier_monitor.py', description='Show a ZeroTier interface live.')
    parser.add_argument('--bundle', required=True)
    try:
        monitor(parser.parse_args(with_values(sys.argv[1:])).bundle)
    except OpError as error:
        print(error)
        sys.exit(1)
