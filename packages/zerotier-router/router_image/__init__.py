"""Images of this router on its disk: two slots, GRUB, and /config, which belongs to neither."""
