#!/bin/sh
# Runs a command with a network of its own, where it may cut processes off, and mounts of its own, where it may have small disks. That takes
# root, or a system on which everybody may make namespaces of users; on others the command runs as it is, and says what it cannot do.
flags=
[ "$(id -u)" = 0 ] || flags='--user --map-root-user'
if unshare $flags --mount --net true 2>/dev/null; then
	exec unshare $flags --mount --net sh -c 'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"' sh "$@"
fi
exec "$@"
