"""Rules and routes beside those over the next-hop groups: uplinks of instances, and full tunnels."""
