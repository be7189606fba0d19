"""The part of VyOS's Python interface that our conf and op scripts call, for systems without VyOS."""


class ConfigError(Exception):
    """A configuration that a conf script refuses."""
