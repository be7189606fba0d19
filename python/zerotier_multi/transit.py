"""Slicing of the transit prefix: instance K of all the sites meets in the K-th transit subnet."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
IPInterface = ipaddress.IPv4Interface | ipaddress.IPv6Interface
IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

DEFAULT_LENGTH = {4: 30, 6: 126}


def site_of(interface: IPInterface) -> int:
    """Host number of an address in its transit subnet: the way back of :meth:`Transit.interface`."""
    return int(interface.ip) - int(interface.network.network_address)


@dataclass(frozen=True)
class Transit:
    """A transit prefix of one address family, cut into subnets of ``subnet_length`` bits."""

    prefix: IPNetwork
    subnet_length: int

    @property
    def family(self) -> int:
        """4 or 6."""
        return self.prefix.version

    @property
    def room(self) -> int:
        """How many transit subnets, hence instances, the prefix holds (0: it is smaller than one subnet)."""
        spare = self.subnet_length - self.prefix.prefixlen
        return 1 << spare if spare >= 0 else 0

    @property
    def sites(self) -> int:
        """The highest site number: hosts of one transit subnet, network and last address left out."""
        return (1 << self.prefix.max_prefixlen - self.subnet_length) - 2

    def subnet(self, instance: int) -> IPNetwork:
        """The transit subnet of ``instance`` (from 1). Raises ValueError beyond :attr:`room`."""
        if not 1 <= instance <= self.room:
            raise ValueError(f"{self.prefix} has no transit subnet {instance} of /{self.subnet_length}")
        size = 1 << self.prefix.max_prefixlen - self.subnet_length
        return ipaddress.ip_network((int(self.prefix.network_address) + (instance - 1) * size, self.subnet_length))

    def interface(self, instance: int, site: int) -> IPInterface:
        """Address with length of ``site`` in the transit subnet of ``instance``.

        Raises ValueError when the subnet or the host number does not exist.
        """
        if not 1 <= site <= self.sites:
            raise ValueError(f"/{self.subnet_length} has no host {site}")
        subnet = self.subnet(instance)
        return ipaddress.ip_interface((int(subnet.network_address) + site, self.subnet_length))

    def prefix_length_for(self, instances: int) -> int:
        """Length of the smallest prefix that has room for ``instances`` subnets of this length."""
        return self.subnet_length - (instances - 1).bit_length()
