#!/bin/sh
# Addresses of this router, for completion: --ipv4, --ipv6 or --both.
case "$1" in
	--ipv4) family=-4 ;;
	--ipv6) family=-6 ;;
	*) family= ;;
esac
ip $family -o address show scope global | awk '{ sub("/.*", "", $4); print $4 }'
