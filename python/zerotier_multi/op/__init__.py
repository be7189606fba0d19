"""Op mode: what is shown and done on request.

:mod:`gather` reads the box into a :class:`~zerotier_multi.op.snapshot.Snapshot`, :mod:`data`, :mod:`routes`,
:mod:`balance` and the like make the answers out of it as plain data, :mod:`text` makes them readable. Those two
steps have no I/O. :mod:`actions` changes something.
"""
