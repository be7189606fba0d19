#!/bin/sh
# Completion: devices that may get packets of a bundle, which the devices of bundles may not.
for path in /sys/class/net/*; do
    [ -e "$path" ] || continue
    name=${path##*/}
    case $name in
        lo | bonding_masters | zt*) ;;
        *) echo "$name" ;;
    esac
done
