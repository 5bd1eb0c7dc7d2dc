#!/bin/sh
# Installs kanzen and its kubectl for this machine: downloads the binaries of a release, and checks them against the release's
# SHA256SUMS.
#
#   sh get-kanzen.sh [--version VERSION] [--downloads URL] [--to DIRECTORY] [--without-kubectl]
#
# The files of a release are below URL/vVERSION. A binary that is there already is downloaded only if its checksum differs.
set -eu
version='@VERSION@'
downloads='@DOWNLOADS@'
to=${HOME:-}/.local/bin
programs='kanzen kanzen-kubectl'

fail() {
	echo "Error: $*" >&2
	exit 1
}
while [ $# -gt 0 ]; do
	case $1 in
	--without-kubectl)
		programs=kanzen
		shift
		continue
		;;
	--version | --downloads | --to) [ $# -ge 2 ] || fail "$1 needs a value" ;;
	*) fail "unknown flag $1; there are --version, --downloads, --to and --without-kubectl" ;;
	esac
	case $1 in
	--version) version=${2#v} ;;
	--downloads) downloads=${2%/} ;;
	--to) to=$2 ;;
	esac
	shift 2
done
[ -n "$downloads" ] || fail "--downloads has to name the URL below which the releases are"

ext=
case $(uname -s) in
Linux) os=linux ;;
Darwin) os=darwin ;;
MINGW* | MSYS* | CYGWIN*) os=windows ext=.exe ;;
*) fail "there is no release for $(uname -s)" ;;
esac
case $(uname -m) in
x86_64 | amd64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*) fail "there is no release for $(uname -m)" ;;
esac

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
# fetch PROGRAM puts a program of the release into $work, unless it is in $to already.
fetch() {
	file=$1-$os-$arch$ext
	want=
	while read -r checksum name; do [ "$name" != "$file" ] || want=$checksum; done <"$work/SHA256SUMS"
	[ -n "$want" ] || fail "kanzen $version has no $file; nothing was installed"
	if [ -f "$to/$1$ext" ] && [ "$(sum "$to/$1$ext")" = "$want" ]; then return; fi
	download "$downloads/v$version/$file" "$work/$1"
	got=$(sum "$work/$1")
	[ "$got" = "$want" ] || fail "$downloads/v$version/$file has the checksum $got, not $want as in SHA256SUMS; nothing was installed"
	chmod 0755 "$work/$1"
}

mkdir -p "$to"
# In the same directory, so that a binary appears there whole or not at all.
work=$(mktemp -d "$to/.kanzen.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
download "$downloads/v$version/SHA256SUMS" "$work/SHA256SUMS"
for program in $programs; do fetch "$program"; done
for program in $programs; do
	if [ -f "$work/$program" ]; then
		mv -f "$work/$program" "$to/$program$ext"
		echo "installed $program $version in $to"
	else
		echo "$program $version is in $to"
	fi
done
