package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// What random sequences of requests (test/sequences) have found beside kube-apiserver: its answers, asked one by one.
func TestFoundBySequences(t *testing.T) {
	t.Parallel()
	admin := withCustom(t).Config().Transport
	const ns, registration = "/api/v1/namespaces/ns1/", "/apis/admissionregistration.k8s.io/v1/"
	const configMap = `{"metadata":{"name":"a","generateName":"a-"}}`
	const event = `{"metadata":{"name":"e"},"eventTime":"2020-01-01T00:00:00.000000Z","action":"a","reason":"r","reportingController":"x.y/z","type":"Normal","regarding":{"kind":"Pod","namespace":"other"}}`
	for _, c := range []struct {
		method, path, contentType, body string
		code                            int
		says, never                     string
	}{
		// A subresource does not make its object, unlike in kube-apiserver.
		{"PATCH", ns + "services/s/status?fieldManager=m", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"ports":[{"port":80}]}}`, 404, "", ""},
		// A client that names an object and lets a name be generated is told that none was found.
		{"POST", ns + "configmaps", "application/json", configMap, 201, "", ""},
		{"POST", ns + "configmaps", "application/json", configMap, 409, `"retryAfterSeconds":1`, ""},
		{"PUT", ns + "configmaps/a", "application/json", `{"metadata":{"name":"a","uid":"other"}}`, 409, "Key: /registry/configmaps/ns1/a,", ""},
		{"PUT", ns + "configmaps/a?dryRun=All", "application/json", `{"metadata":{"name":"a","uid":"other"}}`, 409, "Key: /configmaps/ns1/a,", ""},
		// Events are judged as core's, whatever their version.
		{"POST", "/apis/events.k8s.io/v1/namespaces/ns1/events", "application/json", event, 422, `"kind":"Event"`, `"group":"events.k8s.io"`},
		// An empty list is a field that somebody has set.
		{"POST", ns + "limitranges", "application/json", `{"metadata":{"name":"l"},"spec":{"limits":[]}}`, 201, `"f:limits":{}`, ""},
		// Annotations of another version are not stored, also if they are applied.
		{"PATCH", "/apis/autoscaling/v2/namespaces/ns1/horizontalpodautoscalers/h?fieldManager=m", "application/apply-patch+yaml",
			`{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"h","annotations":{"autoscaling.alpha.kubernetes.io/behavior":"{}"}},"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}`,
			201, `"maxReplicas":3`, `"autoscaling.alpha.kubernetes.io/behavior":"`},
		{"POST", "/api/v1/nodes", "application/json", `{"metadata":{"name":"n"},"spec":{"providerID":"a"}}`, 201, "", ""},
		{"PATCH", "/api/v1/nodes/n", "application/merge-patch+json", `{"spec":{"providerID":"b"}}`, 422, `"reason":"FieldValueInvalid"`, "Forbidden"},
		// Who writes a subresource of a pod manages also what that leaves out.
		{"POST", ns + "pods", "application/json", `{"metadata":{"name":"p"},"spec":{"automountServiceAccountToken":false,"containers":[{"name":"c","image":"i"}]}}`, 201, "", ""},
		{"PATCH", ns + "pods/p/ephemeralcontainers", "application/merge-patch+json", `{"spec":{"activeDeadlineSeconds":7}}`, 200, `"subresource":"ephemeralcontainers"`, `"activeDeadlineSeconds":7`},
		{"PATCH", ns + "pods/p/resize", "application/merge-patch+json", `{"status":{"message":"m"}}`, 200, `"subresource":"resize"`, `"message":"m"`},
		{"POST", ns + "pods", "application/json", `{"metadata":{"name":"s"},"spec":{"automountServiceAccountToken":false,"hostPID":true,"shareProcessNamespace":true,"containers":[{"name":"c","image":"i"}]}}`, 422, `"field":"spec.shareProcessNamespace"`, ""},
		// A container with claims is resized as others are.
		{"POST", ns + "pods", "application/json", `{"metadata":{"name":"q"},"spec":{"automountServiceAccountToken":false,"resourceClaims":[{"name":"g","resourceClaimName":"x"}],"containers":[{"name":"c","image":"i","resources":{"claims":[{"name":"g"}],"requests":{"cpu":"1"}}}]}}`, 201, "", ""},
		{"PATCH", ns + "pods/q/resize", "application/strategic-merge-patch+json", `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"2"}}}]}}`, 200, `"cpu":"2"`, ""},
		// A pod whose account is missing is told so in kube-apiserver's words.
		{"POST", ns + "pods", "application/json", `{"metadata":{"name":"r"},"spec":{"serviceAccountName":"none","containers":[{"name":"c","image":"i"}]}}`, 403, `error looking up service account ns1/none: serviceaccount \"none\" not found`, ""},
		// What an apply says of a value that its type does not take.
		{"PATCH", "/apis/coordination.k8s.io/v1/namespaces/ns1/leases/l?fieldManager=m", "application/apply-patch+yaml", `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"},"spec":{"renewTime":"other"}}`, 500,
			`proper version: unable to convert unstructured object to coordination.k8s.io/v1, Kind=Lease: parsing time`, ""},
		// A policy that changes objects has nothing to say about deletions, also if it matches all operations.
		{"POST", registration + "mutatingadmissionpolicies", "application/json", `{"metadata":{"name":"m"},"spec":{"failurePolicy":"Fail","reinvocationPolicy":"Never",
			"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["configmaps"]}]},"matchConditions":[{"name":"c","expression":"object.metadata.name == 'm'"}],
			"mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{data: {'changed': 'yes'}}"}}]}}`, 201, "", ""},
		{"POST", registration + "mutatingadmissionpolicybindings", "application/json", `{"metadata":{"name":"m"},"spec":{"policyName":"m"}}`, 201, "", ""},
		{"POST", ns + "configmaps", "application/json", `{"metadata":{"name":"m"}}`, 201, `"changed":"yes"`, ""},
		{"DELETE", ns + "configmaps/m", "", "", 200, "", "denied"},
		// A UID that admission gives to a new object is as one that a client has sent in a POST: nobody's. To a scale it says which object is meant.
		{"POST", registration + "mutatingadmissionpolicies", "application/json", `{"metadata":{"name":"u"},"spec":{"failurePolicy":"Fail","reinvocationPolicy":"Never",
			"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}]},"matchConditions":[{"name":"c","expression":"object.metadata.name == 'u'"}],
			"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'add', path: '/metadata/uid', value: 'other'}]"}}]}}`, 201, "", ""},
		{"POST", registration + "mutatingadmissionpolicybindings", "application/json", `{"metadata":{"name":"u"},"spec":{"policyName":"u"}}`, 201, "", ""},
		{"PATCH", ns + "configmaps/u?fieldManager=m", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"u"}}`, 201, `"uid":"`, `"uid":"other"`},
		{"POST", "/apis/apps/v1/namespaces/ns1/deployments", "application/json", `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, 201, "", ""},
		{"PATCH", "/apis/apps/v1/namespaces/ns1/deployments/d/scale", "application/merge-patch+json", `{"metadata":{"uid":"other"}}`, 409, `deployments/scale.apps \"d\": Precondition failed: UID in precondition: other`, ""},
		// An object to which admission has given a name that is taken is refused at once; each try would meet the same.
		{"POST", registration + "mutatingadmissionpolicies", "application/json", `{"metadata":{"name":"n"},"spec":{"failurePolicy":"Fail","reinvocationPolicy":"Never",
			"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}]},"matchConditions":[{"name":"c","expression":"object.metadata.name == 'n'"}],
			"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'replace', path: '/metadata/name', value: 'renamed'}]"}}]}}`, 201, "", ""},
		{"POST", registration + "mutatingadmissionpolicybindings", "application/json", `{"metadata":{"name":"n"},"spec":{"policyName":"n"}}`, 201, "", ""},
		{"PATCH", ns + "configmaps/n?fieldManager=m", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n"}}`, 201, `"name":"renamed"`, ""},
		{"PATCH", ns + "configmaps/n?fieldManager=m", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n"}}`, 409, `configmaps \"renamed\" already exists`, ""},
		// A status of a CronJob has no rules of its own, not even for finalizers.
		{"POST", "/apis/batch/v1/namespaces/ns1/cronjobs", "application/json", `{"metadata":{"name":"j"},"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}`, 201, "", ""},
		{"PATCH", "/apis/batch/v1/namespaces/ns1/cronjobs/j/status", "application/merge-patch+json", `{"metadata":{"finalizers":["bad"]}}`, 200, `"finalizers":["bad"]`, ""},
		// Admission sees a request for a token when it is complete, and not before the account is known to exist.
		{"POST", registration + "validatingadmissionpolicies", "application/json", `{"metadata":{"name":"t"},"spec":{
			"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["serviceaccounts/token"]}]},
			"validations":[{"expression":"size(object.spec.audiences) == 1 && object.metadata.name == request.name && object.spec.expirationSeconds > 700"}]}}`, 201, "", ""},
		{"POST", registration + "validatingadmissionpolicybindings", "application/json", `{"metadata":{"name":"t"},"spec":{"policyName":"t","validationActions":["Deny"]}}`, 201, "", ""},
		{"POST", ns + "serviceaccounts", "application/json", `{"metadata":{"name":"sa"}}`, 201, "", ""},
		{"POST", ns + "serviceaccounts/sa/token", "application/json", `{"spec":{}}`, 201, `"token":"ey`, ""},
		{"POST", ns + "serviceaccounts/sa/token", "application/json", `{"spec":{"expirationSeconds":600}}`, 422, "denied", ""},
		{"POST", ns + "serviceaccounts/sa/token", "application/json", `{"spec":{"expirationSeconds":10}}`, 422, "may not specify a duration less than 10 minutes", "denied"},
		{"POST", ns + "serviceaccounts/none/token", "application/json", `{"spec":{"expirationSeconds":600}}`, 404, "", "denied"},
	} {
		code, body := said(t, admin, c.method, c.path, c.contentType, c.body)
		if code != c.code || !strings.Contains(body, c.says) || c.never != "" && strings.Contains(body, c.never) {
			t.Errorf("%s %s: %d %s", c.method, c.path, code, body)
		}
	}
	// Nor are they in metadata alone.
	hpa := `{"metadata":{"name":"g"},"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"behavior":{"scaleUp":{"selectPolicy":"Min"}}}}`
	if code, body := said(t, admin, "POST", "/apis/autoscaling/v2/namespaces/ns1/horizontalpodautoscalers", "application/json", hpa); code != http.StatusCreated {
		t.Fatal(code, body)
	}
	const old = "/apis/autoscaling/v1/namespaces/ns1/horizontalpodautoscalers/g"
	for accept, there := range map[string]bool{"": true, ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1": false, ";as=Table;g=meta.k8s.io;v=v1": false} {
		if code, body := said(t, admin, "GET", old, "", "", "application/json"+accept); code != http.StatusOK || strings.Contains(body, "autoscaling.alpha.kubernetes.io/behavior") != there {
			t.Errorf("%q: %d %s", accept, code, body)
		}
	}
	// An empty table has a list of rows, unless the kind has no table of its own.
	for path, rows := range map[string]string{ns + "limitranges": "null", ns + "secrets": "[]", "/apis/rbac.authorization.k8s.io/v1/clusterroles": "null"} {
		if code, body := said(t, admin, "GET", path+"?labelSelector=none", "", "", "application/json;as=Table;g=meta.k8s.io;v=v1"); code != http.StatusOK || !strings.HasSuffix(strings.TrimSpace(body), `,"rows":`+rows+"}") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// said is what a server answers.
func said(t *testing.T, rt http.RoundTripper, method, path, contentType, body string, accept ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://kanzen"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header["Accept"] = accept
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}
