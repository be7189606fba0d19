"""Makes this router's nodes members of their networks at the API of a controller: names, authorizes, gives addresses.

zerotier-pathd runs it as a program of its own (``python3 -m zerotier_multi.controller ztN``), so that neither a commit nor the
daemon waits for a controller. :mod:`settings` is what is configured, :mod:`dialects` the requests of each kind of controller,
:mod:`client` their transport, :mod:`work` what is done with them.
"""
