"""Lays the product over vyos-1x (:mod:`builder.overlay`) and builds VyOS images with it (:mod:`builder.image`)."""
