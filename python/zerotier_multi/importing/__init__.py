"""Takes over what runs ZeroTier elsewhere: homes of zerotier-one, the configuration of OpenWrt, of containers on VyOS and of
vyos-1x #4752 become ``set`` lines.

A source is read into :class:`process.Process` values; :mod:`lines` writes the commands. What cannot be taken over is a line
that begins with #, which conf mode leaves alone. Secrets are never read: identities are copied by commands that are printed.
"""
