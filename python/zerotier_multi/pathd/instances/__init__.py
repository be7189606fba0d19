"""The processes of the instances: those that hang, are gone, or cannot follow moved addresses."""
