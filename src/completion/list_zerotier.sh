#!/bin/sh
# Completion for op mode: the configured ZeroTier interfaces, or with "--instances [ztN]" the numbers of the
# instances of one of them, of all where none is named; with "--remotes ztN" the names of its remotes. For all but these
# only file names are read; who may not read the plan gets none.

if [ "$1" = --instances ]; then
    case $2 in
        zt[0-9]*) bundle=$2 ;;
        *) bundle='zt*' ;;
    esac
    # shellcheck disable=SC2086,SC2231 # the star is meant
    for unit in /run/systemd/system/zerotier-multi@$bundle-*.service.d; do
        [ -d "$unit" ] || continue
        number=${unit##*-}
        echo "${number%.service.d}"
    done | sort -nu
    exit 0
fi

if [ "$1" = --remotes ]; then
    case $2 in
        *[!0-9a-z]*) ;;
        zt[0-9]*) sed -n 's/^ *"remote": "\([^"]*\)",*$/\1/p' "/run/zerotier-multi/$2.json" 2>/dev/null | sort -u ;;
    esac
    exit 0
fi

for plan in /run/zerotier-multi/zt*.json; do
    [ -f "$plan" ] || continue
    name=${plan##*/}
    echo "${name%.json}"
done
