#!/bin/sh
# Builds kubectl as FILE, for the platform that GOOS and GOARCH name: release/kubectl/build.sh FILE. LDFLAGS are further flags of the linker.
set -eu
case ${1:?the file to write} in /*) out=$1 ;; *) out=$PWD/$1 ;; esac
cd "$(dirname "$0")"
# k8s.io/kubectl v0.37.2 is what Kubernetes 1.37.2 has. Without a version, 'kubectl version' says that it knows none.
version=1.$(sed -n 's|^	k8s\.io/kubectl v0\.||p' go.mod)
minor=${version#1.}
v=k8s.io/component-base/version
CGO_ENABLED=0 exec "${GO:-go}" build -o "$out" -ldflags \
	"-s -w ${LDFLAGS:-} -X $v.gitMajor=1 -X $v.gitMinor=${minor%%.*} -X $v.gitVersion=v$version -X $v.gitCommit=" .
