#!/usr/bin/env bash
# Runs a released binary where there is nothing else: in an empty root (as root), or without an environment. kubectl asks
# from outside. Serve, a CRD and its objects, stop, start again; the time of each.
set -euo pipefail
binary=$(realpath "${1:?the binary}")
kubectl=${KUBECTL:-$(command -v kubectl || true)}
root=$(mktemp -d) pid=
finish() {
	[ -z "$pid" ] || kill "$pid" 2>/dev/null || true
	[ -z "$pid" ] || wait "$pid" 2>/dev/null || true
	rm -rf "$root"
}
trap finish EXIT
cp "$binary" "$root/kanzen"
chmod 0755 "$root"

if [ -z "$kubectl" ]; then
	echo "there is no kubectl on PATH; building it (KUBECTL=PATH names one)"
	"$(dirname "$0")/kubectl/build.sh" "$root.kubectl"
	kubectl=$root.kubectl
fi
run=(env -i "$root/kanzen" serve --data-dir="$root/data" --secure-port=0)
where="a directory, without an environment"
if [ "$(id -u)" = 0 ] && chroot "$root" /kanzen --version >/dev/null 2>&1; then
	run=(env -i "$(command -v chroot)" "$root" /kanzen serve --data-dir=/data --secure-port=0)
	where="an empty root"
fi
echo "in $where: $("$root/kanzen" --version), $(du -m "$root/kanzen" | cut -f1) MB"

ms() { date +%s%3N; }
took() { printf '  %-44s %6d ms\n' "$1" $(($(ms) - began)); }
start() {
	began=$(ms)
	: >"$root.out"
	"${run[@]}" >"$root.out" 2>"$root.err" &
	pid=$!
	for _ in $(seq 1 1200); do
		grep -q 'serves Kubernetes' "$root.out" && break
		kill -0 "$pid" 2>/dev/null || { cat "$root.err"; exit 1; }
		sleep 0.05
	done
	grep -q 'serves Kubernetes' "$root.out" || { cat "$root.err"; echo "it does not come up"; exit 1; }
	took "$1"
}
stop() {
	began=$(ms)
	kill -TERM "$pid" && wait "$pid"
	pid=
	took "stop"
}
k() { "$kubectl" --kubeconfig "$root/data/pki/admin.kubeconfig" "$@"; }
step() {
	began=$(ms)
	"${@:2}" >"$root.step" 2>&1 || { cat "$root.step"; echo "failed: $1"; exit 1; }
	took "$1"
}
trap 'finish; rm -f "$root".*' EXIT

start "serve, on nothing"
step "kubectl get namespaces" k get namespaces
cat >"$root.crd" <<'YAML'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer, minimum: 1}}}}
YAML
step "a CRD" k apply -f "$root.crd"
step "it is established" k wait --for=condition=Established --timeout=60s crd/widgets.example.com
widget() { printf '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"%s","namespace":"default"},"spec":{"size":%s}}' "$1" "$2"; }
widget a 3 >"$root.good" && widget b 0 >"$root.bad"
step "an object of it" k apply -f "$root.good"
if k apply -f "$root.bad" >"$root.step" 2>&1; then echo "its schema is not checked"; exit 1; fi
cat >"$root.cronjob" <<'YAML'
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: default}
spec:
  schedule: "0 3 * * *"
  timeZone: Europe/Berlin
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}}
YAML
step "a CronJob in a time zone" k create -f "$root.cronjob"
stop
start "serve, on what is there"
[ "$(k get widget a -o 'jsonpath={.spec.size}')" = 3 ] || { echo "the object is lost"; exit 1; }
stop
echo "passed"
