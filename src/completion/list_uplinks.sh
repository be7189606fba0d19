#!/bin/sh
# Completion: devices that may carry the underlay, which tunnels, loopbacks and the devices of bundles may not.
for path in /sys/class/net/*; do
    [ -e "$path" ] || continue
    name=${path##*/}
    case $name in
        lo | bonding_masters | zt* | wg* | tun* | tap* | vtun* | vti* | ipsec* | xfrm* | gre* | gnv* | vxlan* | l2tpeth* | ipoe* | sstpc* | \
            dum* | pod-* | tailscale* | wt* | docker* | podman* | cni-* | virbr*) ;;
        *) echo "$name" ;;
    esac
done
