"""Routers as systemd-nspawn containers on an underlay of their own; one machine, real systemd, real traffic.

::

              +------------- namespace ztl-NAME -------------+
              |                  br0                         |
              |   u1 (netem)      u2 (netem)      u3 ...     |
              +---|----------------|---------------|---------+
             eth0 |           eth0 |          eth0 |
         +--------+----+  +--------+----+  +-------+-----+
         | R1          |  | R2          |  | R3          |     systemd, FRR, our packages
         | 198.51.100.1|  | 198.51.100.2|  | ...         |     2001:db8:0:1::K/64
         +-------------+  +-------------+  +-------------+

Use it as a context manager; everything it makes goes away with it, and what a killed lab left behind goes
away with the next one.
"""

from lab.lab import Lab
from lab.process import LabError, run
from lab.router import CommitResult, Router

__all__ = ["CommitResult", "Lab", "LabError", "Router", "run"]
