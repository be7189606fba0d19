"""Before a zerotier-one starts that has a source interface: the addresses that this one has now go into its local.conf.

``python3 -m zerotier_multi.rebind zt0-2``, out of the drop-in of its unit; so whoever restarts an instance whose addresses
have changed need not know where they are written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from zerotier_multi.facts import device_addresses
from zerotier_multi.files import write_atomic
from zerotier_multi.local_conf import local_conf
from zerotier_multi.hosts import read_hosts, with_hosts
from zerotier_multi.plan import PlanError
from zerotier_multi.plans import read_plan


def rebind(bundle: str, number: int) -> bool:
    """Whether the local.conf of an instance has changed. Raises OSError and ValueError."""
    plan = with_hosts(read_plan(bundle), read_hosts())
    instance = plan.instance(number)
    if instance is None:
        raise PlanError(f"{bundle} has no instance {number}")
    return write_atomic(Path(instance.home) / "local.conf", local_conf(plan, instance, device_addresses()).encode(), 0o600)


def main(unit: str) -> int:
    """What the unit calls; ``unit`` is the part of its name behind the @."""
    bundle, _, number = unit.rpartition("-")
    try:
        rebind(bundle, int(number))
    except (OSError, ValueError) as error:
        print(f"{unit} keeps its previous listen addresses: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
