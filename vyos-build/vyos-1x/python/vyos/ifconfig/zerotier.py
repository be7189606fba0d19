"""A ZeroTier bundle as VyOS sees it: the device ztN that holds the loopback address."""

from vyos.ifconfig.interface import Interface


@Interface.register
class ZeroTierIf(Interface):
    """Made and removed by zerotier-pathd. Its ``iftype`` is none, so VyOS reads it and never creates it.

    The TAPs of the instances (ztNpK) match no prefix and so are no interfaces of the configuration.

    VyOS's qos looks up by section what has to be committed again after it, for each device with a mirror or a redirect.
    That is in data/config-mode-dependencies, and nothing for this section: what zerotier-pathd has in nftables stays.
    """

    iftype = None
    definition = {
        **Interface.definition,
        'section': 'zerotier',
        'prefixes': ['zt'],
    }
