package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/process/config"
)

// TestGatesOff asks a server without features that are on by default: what they allow is refused, and what they do is left undone.
func TestGatesOff(t *testing.T) {
	s := startWith(t, func(c *config.Config) {
		c.FeatureGates = []string{"WatchList=false,MutablePodResourcesForSuspendedJobs=false,MutableSchedulingDirectivesForSuspendedJobs=false,PodDeletionCost=false," +
			"ClearingNominatedNodeNameAfterBinding=false,MatchLabelKeysInPodTopologySpreadSelectorMerge=false,ServiceCIDRStatusFieldWiping=false,DeploymentReplicaSetTerminatingReplicas=false,TokenRequestServiceAccountUIDValidation=false," +
			"StorageVersionHash=false,OpenAPIEnums=false,RestartAllContainersOnContainerExits=false,SELinuxMount=false"}
	})
	withAccount(t, s)
	const merge, jsonType = "application/merge-patch+json", "application/json"
	ns := "/api/v1/namespaces/default/"
	job := "/apis/batch/v1/namespaces/default/jobs"
	for _, step := range []struct {
		name, method, path, body string
		code                     int
		has, lacks               string
	}{
		{"a watch with the state", "GET", ns + "configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "", 422,
			"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled", ""},
		{"a suspended job", "POST", job, `{"metadata":{"name":"j"},"spec":{"suspend":true,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"c"}]}}}}`, 201, "", ""},
		{"its resources", "PATCH", job + "/j", `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"c","resources":{"requests":{"cpu":"1"}}}]}}}}`, 422, "spec.template", ""},
		{"its nodes, before it began", "PATCH", job + "/j", `{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`, 200, "", ""},
		{"it began", "PATCH", job + "/j/status", `{"status":{"startTime":"2026-01-01T00:00:00Z","conditions":[{"type":"Suspended","status":"True"}]}}`, 200, "", ""},
		{"its nodes afterwards", "PATCH", job + "/j", `{"spec":{"template":{"spec":{"nodeSelector":{"a":"c"}}}}}`, 422, "spec.template", ""},
		{"a pod", "POST", ns + "pods", `{"metadata":{"name":"p","labels":{"a":"b"},"annotations":{"controller.kubernetes.io/pod-deletion-cost":"no number"}},"spec":{"containers":[{"name":"c","image":"c"}],
			"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway","labelSelector":{},"matchLabelKeys":["a"]}]}}`, 201, `"matchLabelKeys":["a"]`, "matchExpressions"},
		{"its nomination", "PATCH", ns + "pods/p/status", `{"status":{"nominatedNodeName":"n1"}}`, 200, "", ""},
		{"its node", "POST", ns + "pods/p/binding", `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n2"}}`, 201, "", ""},
		{"its nomination stays", "GET", ns + "pods/p", "", 200, `"nominatedNodeName":"n1"`, ""},
		{"and may change", "PATCH", ns + "pods/p/status", `{"status":{"nominatedNodeName":"n3"}}`, 200, "", ""},
		{"replicas", "POST", "/apis/apps/v1/namespaces/default/replicasets", `{"metadata":{"name":"r"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
			"spec":{"containers":[{"name":"c","image":"c"}]}}}}`, 201, "", ""},
		{"its pods that end", "PATCH", "/apis/apps/v1/namespaces/default/replicasets/r/status", `{"status":{"terminatingReplicas":1}}`, 200, "", `"terminatingReplicas":1`},
		{"a token for another UID", "POST", ns + "serviceaccounts/default/token", `{"metadata":{"uid":"other"},"spec":{}}`, 201, `"token":`, ""},
		{"a range with a status", "POST", "/apis/networking.k8s.io/v1/servicecidrs", `{"metadata":{"name":"r"},"spec":{"cidrs":["10.9.0.0/24"]},"status":{"conditions":[{"type":"Mine","status":"True",
			"reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, 201, `"Mine"`, ""},
		{"the kinds of a version", "GET", "/apis/batch/v1", "", 200, `"jobs"`, "storageVersionHash"},
		{"its document", "GET", "/openapi/v3/apis/batch/v1", "", 200, "io.k8s.api.batch.v1.JobSpec", `"enum":`},
		{"a pod that restarts whole", "POST", ns + "pods", `{"metadata":{"name":"q"},"spec":{"containers":[{"name":"c","image":"c","restartPolicy":"Never",
			"restartPolicyRules":[{"action":"RestartAllContainers","exitCodes":{"operator":"In","values":[1]}}]}]}}`, 422, "restartPolicyRules[0].action", ""},
		{"a pod with SELinux by mount", "POST", ns + "pods", `{"metadata":{"name":"q"},"spec":{"securityContext":{"seLinuxChangePolicy":"MountOption"},
			"containers":[{"name":"c","image":"c"}]}}`, 422, "seLinuxChangePolicy", ""},
	} {
		contentType := jsonType
		if step.method == http.MethodPatch {
			contentType = merge
		}
		answer := string(do(t, s, step.method, step.path, contentType, "", []byte(step.body), step.code))
		if !strings.Contains(answer, step.has) || step.lacks != "" && strings.Contains(answer, step.lacks) {
			t.Errorf("%s: %s", step.name, answer)
		}
	}
}
