#!/usr/bin/env bash
# Builds a release into dist/: kanzen and kubectl for the platforms given (os/arch ...), packages, a container image, completions,
# man pages, bills of materials, repositories for apt and dnf (signed by SIGNING_KEY, a file; with the packages of earlier releases in the
# directory EARLIER), what channels.sh makes (DOWNLOADS=URL says where releases are published), checksums. The same commit, Go and
# settings give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${DIST:-dist}
export GOFLAGS='-trimpath -buildvcs=false' # of the tools too: the bill of materials has the checksum of the one that wrote it
tool() { go tool -modfile=release/go.mod "$@"; } # nfpm and cyclonedx-gomod, at the versions of that file

commit=$(git rev-parse HEAD)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
version=$(git describe --tags --match 'v*' 2>/dev/null | sed 's/^v//' || true)
version=${VERSION:-${version:-$(sed -n 's/^var Kanzen = "\(.*\)"/\1/p' internal/base/version/version.go)}}
date=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ 2>/dev/null || date -u -r "$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
module=github.com/kanzen-io/kanzen/internal/base/version
ldflags="-s -w -buildid= -X $module.Kanzen=$version -X $module.commit=$commit -X $module.date=$date"
echo "kanzen $version, commit $commit"
rm -rf "$out" && mkdir -p "$out" && out=$(cd "$out" && pwd)

for platform in "$@"; do
	os=${platform%/*} arch=${platform#*/} ext=
	[ "$os" = windows ] && ext=.exe
	echo "binaries for $platform"
	CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -ldflags "$ldflags" -o "$out/kanzen-$os-$arch$ext" ./cmd/kanzen
	GOOS=$os GOARCH=$arch LDFLAGS=-buildid= release/kubectl/build.sh "$out/kanzen-kubectl-$os-$arch$ext"
done

echo "completions and man pages"
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -ldflags "$ldflags" -o "$work/kanzen" ./cmd/kanzen
mkdir -p "$out/completions"
for shell in bash zsh fish powershell; do "$work/kanzen" completion $shell >"$out/completions/kanzen.$shell"; done
"$work/kanzen" man "$out/man"
find "$out/man" -name '*.1' -exec gzip -9n {} +

image=()
for arch in amd64 arm64; do
	[ -f "$out/kanzen-linux-$arch" ] || continue
	image+=("linux/$arch=$out/kanzen-linux-$arch,$out/kanzen-kubectl-linux-$arch")
	if [ -z "${NO_PACKAGES:-}" ]; then
		echo "packages for $arch"
		for kind in deb rpm; do
			ARCH=$arch VERSION=$version DIST=$out tool nfpm package --config release/nfpm.yaml --packager $kind --target "$out/" >/dev/null
		done
	fi
done
if [ ${#image[@]} -gt 0 ]; then
	echo "container image"
	(cd release && go run ./image -o "$out/image" -created "$SOURCE_DATE_EPOCH" -version "$version" -revision "$commit" "${image[@]}")
	find "$out/image" -type f -exec chmod 0644 {} +
	tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -C "$out/image" -cf "$out/kanzen-image-oci.tar" .
	rm -rf "$out/image"
fi

if [ -z "${NO_SBOM:-}" ]; then
	echo "bills of materials"
	for program in kanzen kanzen-kubectl; do
		first=("$out/$program"-linux-*)
		tool cyclonedx-gomod bin -json -noserial -notimestamp -std -licenses -version "v$version" -output "$out/$program.cdx.json" "${first[0]}" >"$work/sbom.log" 2>&1 || { cat "$work/sbom.log"; exit 1; }
	done
fi
cp release/systemd/kanzen.service release/kubernetes/kanzen.yaml "$out/"
shopt -s nullglob
packages=("$out"/*.deb "$out"/*.rpm)
if [ ${#packages[@]} -gt 0 ]; then
	echo "repositories for apt and dnf"
	[ -z "${EARLIER:-}" ] || packages+=("$(realpath "$EARLIER")"/*.{deb,rpm})
	flags=(-out "$out" -created "$SOURCE_DATE_EPOCH")
	[ -z "${DOWNLOADS:-}" ] || flags+=(-url "$DOWNLOADS")
	[ -z "${SIGNING_KEY:-}" ] || flags+=(-key "$(realpath "$SIGNING_KEY")")
	(cd release && go run ./repository "${flags[@]}" "${packages[@]}")
fi
shopt -u nullglob
echo "chart, action, feature, formula, manifest, flake"
VERSION=$version release/channels.sh "$out"
(cd "$out" && find . -type f ! -name SHA256SUMS | sed 's|^\./||' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
ls -l "$out"
