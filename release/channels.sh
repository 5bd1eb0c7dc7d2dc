#!/usr/bin/env bash
# Writes what brings a release to people into the directory of the release, whose binaries are there already: a script that
# installs it, a Helm chart, a GitHub Action, a devcontainer feature and, if DOWNLOADS is set, a Homebrew formula, a Scoop manifest
# and a Nix flake. DOWNLOADS is the URL below which releases are published, each version V below vV; IMAGE is the image's name.
set -euo pipefail
cd "$(dirname "$0")"
out=${1:?the directory of the release}
: "${VERSION:?}" "${SOURCE_DATE_EPOCH:?}"
downloads=${DOWNLOADS:-} image=${IMAGE:-kanzen}
downloads=${downloads%/}
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT

sed_script=$work/sed
{
	echo "s|@VERSION@|$VERSION|g"
	echo "s|@DOWNLOADS@|$downloads|g"
	echo "s|@URL@|$downloads/v$VERSION|g"
	echo "s|@IMAGE@|$image|g"
	(cd "$out" && for binary in kanzen-{,kubectl-}{linux,darwin}-* kanzen-{,kubectl-}windows-*.exe; do
		if [ -f "$binary" ]; then echo "s|@SHA256 $binary@|$(sha256sum "$binary" | cut -d ' ' -f 1)|g"; fi
	done)
} >"$sed_script"
# expand TEMPLATE FILE fills a template; it fails if the release lacks what the template names.
expand() {
	mkdir -p "$(dirname "$2")"
	sed -f "$sed_script" "$1" >"$2"
	chmod "$([ -x "$1" ] && echo 0755 || echo 0644)" "$2"
	if grep -n '@[A-Z][A-Z0-9]*\( [^@]*\)\{0,1\}@' "$2"; then
		echo "release/$1: the release has no value for this" >&2
		exit 1
	fi
}
# archive DIRECTORY NAME... writes names of a directory to the standard output: the same files give the same bytes.
archive() {
	tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -C "$1" -cf - "${@:2}" | gzip -9n
}

expand get-kanzen.sh "$out/get-kanzen.sh"

find chart -type f | while read -r file; do expand "$file" "$work/kanzen/${file#chart/}"; done
archive "$work" kanzen >"$out/kanzen-$VERSION.tgz"

for file in action.yml setup.sh; do expand setup-kanzen/$file "$out/setup-kanzen/$file"; done
cp "$out/get-kanzen.sh" "$out/setup-kanzen/"

for file in devcontainer-feature.json install.sh; do expand devcontainer/$file "$work/feature/$file"; done
cp "$out/get-kanzen.sh" "$work/feature/"
archive "$work/feature" ./ >"$out/devcontainer-feature-kanzen.tgz"

if [ -z "$downloads" ]; then
	echo "  no formula for Homebrew, no manifest for Scoop, no flake for Nix: DOWNLOADS=URL has to say where releases are published"
	exit 0
fi
expand homebrew/kanzen.rb "$out/homebrew/kanzen.rb"
expand scoop/kanzen.json "$out/scoop/kanzen.json"
expand nix/flake.nix "$out/nix/flake.nix"
