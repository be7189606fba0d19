"""The kernel's network state over netlink.

``rtnl`` is the one door; ``links``, ``nexthops``, ``routes`` and ``rules`` are the values that go through it and how they
look in messages; ``messages`` is the format, ``sockets`` sends and receives.
"""
