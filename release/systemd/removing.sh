#!/bin/sh
# Before removing, not before upgrading: "remove" is what dpkg says, 0 what rpm says.
case "${1:-}" in remove | 0) ;; *) exit 0 ;; esac
if [ -d /run/systemd/system ]; then systemctl disable --now kanzen.service || true; fi
