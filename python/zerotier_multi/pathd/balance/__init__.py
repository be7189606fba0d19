"""How much of the traffic each path of a group gets."""
