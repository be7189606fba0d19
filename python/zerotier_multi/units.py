"""Text of the drop-in that makes the packaged template unit into one instance; pure."""

from __future__ import annotations

from zerotier_multi.cpu import format_cpu_list
from zerotier_multi.engine_choice import follows_addresses
from zerotier_multi.plan import InstancePlan

DIGEST_VARIABLE = "ZEROTIER_MULTI_DIGEST"
LOCK = ".lock"


def dropin(instance: InstancePlan, restart_digest: str) -> str:
    """Content of ``/run/systemd/system/<unit>.d/10-plan.conf``.

    The lock keeps a second process off the same home, which zerotier-one itself would allow; it is taken on
    standard input, because zerotier-one closes every other descriptor that it is started with. The digest in
    the environment says under which settings a running process was started.
    """
    lines = [
        "[Service]",
        f"Environment={DIGEST_VARIABLE}={restart_digest}",
        f"StandardInput=file:{instance.home}/{LOCK}",
        f"ExecStart=/bin/sh -c 'flock --nonblock 0 || exit 75; exec {instance.engine} -U -p{instance.port} {instance.home}'",
        f"ReadWritePaths={instance.home}",
    ]
    if instance.source_interface and not follows_addresses(instance.engine):
        # It is kept to a device by the addresses that this has when it starts.
        lines.append("ExecStartPre=-/usr/bin/python3 -I -m zerotier_multi.rebind %i")
    if instance.cpus:
        cpus = format_cpu_list(instance.cpus)
        lines += [f"CPUAffinity={cpus.replace(',', ' ')}", f"AllowedCPUs={cpus}"]
    return "\n".join(lines) + "\n"
