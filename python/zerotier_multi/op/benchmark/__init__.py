"""``zerotier benchmark ztN``: a short run between two routers that says how many instances carry what."""
