"""ZeroTier's protocol as far as members of a network see it: enough for a root and controller in a lab.

Written from the public description of the protocol (the comments of ZeroTier's ``node/Packet.hpp``) and from what
nodes send. Slow, and without the guards that a node on the Internet needs.
"""
