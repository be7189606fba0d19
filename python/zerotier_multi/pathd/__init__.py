"""zerotier-pathd: makes the kernel's network state what the plans say, and keeps it so.

:mod:`desired` decides what shall stand, :mod:`actions` what to do about the difference, :mod:`kernel` does
it, :mod:`sysctls` looks after the router-wide settings, :mod:`daemon` waits for something to happen.
"""
