#!/bin/sh
# Runs the test suites of controller-runtime, as they are in its module, on kanzen and, where bench/peer/bin has it, on
# kube-apiserver: package by package, and prints a row for each. The environment may name KANZEN and KUBECTL.
# Usage: controller-runtime.sh [package patterns, default ./pkg/...]
set -eu
[ $# -gt 0 ] || set -- ./pkg/...
cd "$(dirname "$0")"
here=$PWD
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
version=$(go list -m -f '{{.Version}}' sigs.k8s.io/controller-runtime)
go mod download "sigs.k8s.io/controller-runtime@$version"
cp -r "$(go env GOMODCACHE)/sigs.k8s.io/controller-runtime@$version" "$work/module"
chmod -R u+w "$work/module"
find "$work/module" -name "*.sh" -exec chmod +x {} + # the module cache has no executable files
mkdir "$work/kanzen" "$work/upstream" "$work/bin"
[ -n "${KANZEN:-}" ] || { KANZEN=$work/bin/kanzen; (cd .. && CGO_ENABLED=0 go build -o "$KANZEN" ./cmd/kanzen); }
[ -n "${KUBECTL:-}" ] || { KUBECTL=$work/bin/kubectl; ../release/kubectl/build.sh "$KUBECTL"; }
"$KANZEN" assets --dir "$work/kanzen" >/dev/null
ln -s "$KUBECTL" "$work/kanzen/kubectl"
servers=kanzen
if [ -x "$here/../bench/peer/bin/kube-apiserver" ] && [ -x "$here/../bench/peer/bin/etcd" ]; then
	ln -s "$(readlink -f "$here/../bench/peer/bin/kube-apiserver")" "$(readlink -f "$here/../bench/peer/bin/etcd")" "$KUBECTL" "$work/upstream/"
	[ -e "$work/upstream/kubectl" ] || ln -s "$KUBECTL" "$work/upstream/kubectl"
	servers="kanzen upstream"
fi
cd "$work/module"
echo "controller-runtime $version on: $servers"
echo "| package | server | result | wall time |"
echo "|---|---|---|---|"
failed=0
for package in $(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' "$@"); do
	name=${package#sigs.k8s.io/controller-runtime/}
	if ! go test -vet=off -c -o "$work/bin/test" "$package" 2>"$work/log"; then
		echo "| $name | | does not build | |"
		sed 's/^/    /' "$work/log" | tail -5
		failed=1
		continue
	fi
	for server in $servers; do
		begin=$(date +%s.%N)
		cd "$name"
		KUBEBUILDER_ASSETS="$work/$server" setsid timeout 600 "$work/bin/test" -test.timeout=10m >"$work/log" 2>&1 &
		session=$!
		cd "$work/module"
		if wait $session; then
			result=passes
		else
			result=FAILS
			[ "$server" != kanzen ] || failed=1
		fi
		pkill -KILL -s $session || true # a suite that fails leaves its servers behind
		echo "| $name | $server | $result | $(echo "$begin $(date +%s.%N)" | awk '{printf "%.1f s", $2 - $1}') |"
		[ "$result" = passes ] || grep -E 'FAIL|panic' "$work/log" | sed 's/^/    /' | tail -15
	done
done
exit $failed
