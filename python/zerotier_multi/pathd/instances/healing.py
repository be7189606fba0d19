"""Instances without their network: the marker in the home has gone, or the network was left through the API.

A process that has left its network, or was started in a home without its marker, does not join again by itself, and
neither does one that is started in such a home. So before an instance whose device is missing is started again, its
files are written as the plan says.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from zerotier_multi.facts import device_addresses
from zerotier_multi.homefiles import HomeFiles, network_config, network_marker
from zerotier_multi.homes import own_identity, sync_home
from zerotier_multi.hosts import current_files, read_hosts
from zerotier_multi.plan import InstancePlan, Plan

log = logging.getLogger("pathd")

Instances = Mapping[str, tuple[Plan, InstancePlan]]  # by device


def missing(instances: Instances, present: Collection[str], up: Collection[int]) -> set[str]:
    """Devices that are not there, or belong to a network without the configuration that the plan gives it.

    The latter only where no path of the instance is ``up``: then its marker is looked at.
    """
    found = set(instances) - set(present)
    for device, (plan, instance) in instances.items():
        paths = [path.nexthop_id for path in plan.paths if path.instance == instance.number]
        if device not in found and plan.controller_free and paths and not set(paths) & set(up) and _strays(plan, instance):
            found.add(device)
    return found


def _strays(plan: Plan, instance: InstancePlan) -> bool:
    """Whether the marker is another one than the plan's, as it is when a network was left and joined by hand."""
    home = Path(instance.home)
    try:
        own = own_identity(home)
        return own is not None and (home / network_marker(instance)).read_bytes() != network_config(plan, instance, own)
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False


def has_identity(instance: InstancePlan) -> bool:
    """Whether an instance has the identity that a commit gives to one without a controller; a damaged one counts."""
    return (Path(instance.home) / "identity.secret").exists()


def heal(plan: Plan, instance: InstancePlan) -> tuple[str, ...]:
    """Write the files of a home as the plan says; names of those that differed. What cannot be written is told."""
    try:
        return sync_home(Path(instance.home), _files(plan, instance)).written
    except (OSError, ValueError) as error:
        log.warning("the home of %s/%d cannot be repaired: %s", plan.bundle, instance.number, error)
        return ()


def cause(instance: InstancePlan, written: Iterable[str]) -> str:
    """Why an instance is started again, by the files that had to be written; a short sentence."""
    files = sorted(written)
    if network_marker(instance) in files:
        return f"it is not on its network: {network_marker(instance)} in its home did not match the plan"
    told = f", and {', '.join(files)} in its home did not match the plan" if files else ""
    return f"its device {instance.device} is missing{told}"


def _files(plan: Plan, instance: InstancePlan) -> HomeFiles:
    addresses = device_addresses() if instance.source_interface else {}
    return current_files(plan, instance, own_identity(Path(instance.home)), read_hosts(), addresses)
