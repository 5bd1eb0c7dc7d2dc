#!/bin/sh
# After installing, upgrading and removing: systemd reads the unit. Nothing is started; a running server goes on until it
# is restarted by hand, when that suits.
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
