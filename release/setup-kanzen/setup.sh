#!/usr/bin/env bash
# What the action setup-kanzen does: install the binaries, name envtest's assets, start a server. action.yml passes the inputs in
# the environment, so that no input becomes a part of a script.
set -euo pipefail
dir=$RUNNER_TEMP/kanzen bin=$RUNNER_TEMP/kanzen/bin
sh "$(dirname "$0")/get-kanzen.sh" --version "$KANZEN_VERSION" --downloads "$KANZEN_DOWNLOADS" --to "$bin" \
	$([ "$KANZEN_KUBECTL" = true ] || echo --without-kubectl)
echo "$bin" >>"$GITHUB_PATH"
echo "path=$bin" >>"$GITHUB_OUTPUT"
if [ "$KANZEN_ASSETS" = true ]; then
	echo "KUBEBUILDER_ASSETS=$("$bin/kanzen" assets --dir "$dir/assets" --print)" >>"$GITHUB_ENV"
fi
[ "$KANZEN_SERVE" = true ] || exit 0

log=$dir/serve.log
read -ra flags <<<"$KANZEN_SERVE_FLAGS"
nohup "$bin/kanzen" serve --data-dir "$dir/data" --secure-port 0 ${flags[@]+"${flags[@]}"} >"$log" 2>&1 </dev/null &
pid=$!
echo "$pid" >"$dir/serve.pid" # for steps that stop it
for _ in $(seq 1 300); do
	grep -q 'serves Kubernetes' "$log" && break
	kill -0 "$pid" 2>/dev/null || break
	sleep 0.1
done
cat "$log"
if ! grep -q 'serves Kubernetes' "$log"; then
	kill "$pid" 2>/dev/null || true
	echo "Error: the server has not started" >&2
	exit 1
fi
echo "kubeconfig=$dir/data/pki/admin.kubeconfig" >>"$GITHUB_OUTPUT"
echo "KUBECONFIG=$dir/data/pki/admin.kubeconfig" >>"$GITHUB_ENV"
