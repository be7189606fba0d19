"""zerotier-pathd: makes the kernel's network state what the plans say, and keeps it so.

``daemon`` waits for something to happen, ``control`` takes requests. The rest lies in rooms: ``kernel`` says what shall
stand and brings it about, ``routing`` adds rules and tables of their own, ``nftables`` filters; ``probe`` finds out which
paths work, ``balance`` how much each gets, ``instances`` looks after the processes, ``tell`` reports.
"""
