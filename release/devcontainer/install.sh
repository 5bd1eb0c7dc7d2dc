#!/bin/sh
# Installs the feature, as root while the container's image is built; options come in the environment.
set -eu
if ! command -v curl >/dev/null 2>&1 && ! command -v wget >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1; then
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends ca-certificates curl
	rm -rf /var/lib/apt/lists/*
fi
exec sh "$(dirname "$0")/get-kanzen.sh" --version "$VERSION" --downloads "$DOWNLOADS" --to "${KANZEN_BIN:-/usr/local/bin}" \
	$([ "$KUBECTL" = true ] || echo --without-kubectl)
