#!/bin/sh
# Installs kanzen for this machine: downloads the binary of a release, and checks it against the release's SHA256SUMS.
#
#   sh get-kanzen.sh [--version VERSION] [--downloads URL] [--to DIRECTORY]
#
# The files of a release are below URL/vVERSION. A binary that is there already is downloaded only if its checksum differs.
set -eu
version='@VERSION@'
downloads='@DOWNLOADS@'
to=${HOME:-}/.local/bin

fail() {
	echo "Error: $*" >&2
	exit 1
}
while [ $# -gt 0 ]; do
	[ $# -ge 2 ] || fail "$1 needs a value"
	case $1 in
	--version) version=${2#v} ;;
	--downloads) downloads=${2%/} ;;
	--to) to=$2 ;;
	*) fail "unknown flag $1; there are --version, --downloads and --to" ;;
	esac
	shift 2
done
[ -n "$downloads" ] || fail "--downloads has to name the URL below which the releases are"

name=kanzen
case $(uname -s) in
Linux) os=linux ;;
Darwin) os=darwin ;;
MINGW* | MSYS* | CYGWIN*) os=windows name=kanzen.exe ;;
*) fail "there is no release for $(uname -s)" ;;
esac
case $(uname -m) in
x86_64 | amd64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*) fail "there is no release for $(uname -m)" ;;
esac
file=kanzen-$os-$arch
[ "$os" != windows ] || file=$file.exe

download() { # URL FILE
	if command -v curl >/dev/null 2>&1; then
		curl --fail --silent --show-error --location --retry 3 --output "$2" "$1" || fail "download $1"
	elif command -v wget >/dev/null 2>&1; then
		wget --quiet --output-document="$2" "$1" || fail "download $1"
	else
		fail "neither curl nor wget is on PATH"
	fi
}
sum() {
	if command -v sha256sum >/dev/null 2>&1; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1
}

mkdir -p "$to"
# In the same directory, so that the binary appears there whole or not at all.
work=$(mktemp -d "$to/.kanzen.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
download "$downloads/v$version/SHA256SUMS" "$work/SHA256SUMS"
want=$(awk -v file="$file" '$2 == file { print $1 }' "$work/SHA256SUMS")
[ -n "$want" ] || fail "kanzen $version has no $file"
if [ -f "$to/$name" ] && [ "$(sum "$to/$name")" = "$want" ]; then
	echo "kanzen $version is in $to"
	exit 0
fi
download "$downloads/v$version/$file" "$work/$name"
got=$(sum "$work/$name")
[ "$got" = "$want" ] || fail "$downloads/v$version/$file has the checksum $got, not $want as in SHA256SUMS; nothing was installed"
chmod 0755 "$work/$name"
mv -f "$work/$name" "$to/$name"
echo "installed kanzen $version in $to"
