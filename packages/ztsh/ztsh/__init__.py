"""The configuration system of the Debian edition: VyOS's syntax over the installed interface definitions.

:mod:`schema` reads the definitions, :mod:`tree` holds a configuration, :mod:`text` reads and prints it,
:mod:`values` checks values, :mod:`commit` runs the conf scripts, :mod:`session` ties them together.
"""
