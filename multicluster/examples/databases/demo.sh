# Usage: demo.sh CONTROLLER, with KUBECONFIG of a server that has planes. README.md says more.
set -eu
controller=$1
here=$(cd "$(dirname "$0")" && pwd)
configs=$(mktemp -d)
pid=
trap 'test -z "$pid" || kill "$pid"; rm -r "$configs"' EXIT

for plane in vendor team-a team-b; do
  printf 'apiVersion: planes.kanzen.io/v1\nkind: Plane\nmetadata: {name: %s}\n' "$plane" | kubectl create -f -
  kubectl wait --for=condition=Ready "plane/$plane"
  kubectl get secret "$plane-kubeconfig" -n kanzen-planes -o jsonpath='{.data.value}' | base64 -d > "$configs/$plane"
done
kubectl --kubeconfig "$configs/vendor" create -f "$here/provider.yaml"
"$controller" --kubeconfig "$configs/vendor" &
pid=$!
for plane in team-a team-b; do
  team="kubectl --kubeconfig $configs/$plane"
  $team create -f "$here/consumer.yaml"
  $team wait --for=condition=Bound bindings.planes.kanzen.io/databases
  printf 'apiVersion: example.com/v1\nkind: Database\nmetadata: {name: db}\nspec: {size: 3}\n' | $team create -f -
done
for plane in team-a team-b; do
  team="kubectl --kubeconfig $configs/$plane"
  $team wait --for=jsonpath='{.status.secret}'=db-password database/db
  test -n "$($team get secret db-password -o jsonpath='{.data.password}')"
done
for plane in team-a team-b; do
  team="kubectl --kubeconfig $configs/$plane"
  echo "$plane: $($team get database db -o jsonpath='{.status.host} {.status.secret}')"
done
