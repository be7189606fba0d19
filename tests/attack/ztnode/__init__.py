"""The whole of ztnode, built with sanitizers, under everything that its doors let in at once; any report of theirs fails."""
