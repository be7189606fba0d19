"""What is set in nftables: the table of ours, and the map of conntrack zones of VyOS."""
