package test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// TestWording posts what clients and tests match the refusal of; the words are those of kube-apiserver v1.36.3.
func TestWording(t *testing.T) {
	t.Parallel()
	c := kubernetes.NewForConfigOrDie(kanzentest.Start(t).Config()).RESTClient()
	const (
		services = "/api/v1/namespaces/default/services"
		nodePort = `{"apiVersion":"v1","kind":"Service","metadata":{"name":%q},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":%d}]}}`
		health   = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"d"},"spec":{"type":"LoadBalancer","externalTrafficPolicy":"Local","healthCheckNodePort":%d,"ports":[{"port":80}]}}`
		address  = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"e"},"spec":{"clusterIP":%q,"ports":[{"port":80}]}}`
		table    = "application/json;as=Table;v=v1;g=meta.k8s.io"
		media    = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
	)
	for _, w := range []struct {
		path, accept, body string
		code               int
		says               string
	}{
		{services, "", fmt.Sprintf(nodePort, "a", 30001), 201, ""},
		{services, "", fmt.Sprintf(nodePort, "b", 30001), 422, "spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated"},
		{services, "", fmt.Sprintf(nodePort, "c", 80), 422, "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"},
		{services, "", fmt.Sprintf(health, 30001), 500, "failed to allocate requested HealthCheck NodePort 30001: provided port is already allocated"},
		{services, "", fmt.Sprintf(health, 3), 500, "failed to allocate requested HealthCheck NodePort 3: provided port is not in the valid range. The range of valid ports is 30000-32767"},
		{services, "", fmt.Sprintf(address, "10.0.0.1"), 422, `spec.clusterIPs: Invalid value: ["10.0.0.1"]: failed to allocate IP 10.0.0.1: provided IP is already allocated`},
		{services, "", fmt.Sprintf(address, "11.0.0.1"), 422, `spec.clusterIPs: Invalid value: ["11.0.0.1"]: failed to allocate IP 11.0.0.1: the provided network does not match the current range`},
		{"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", "", `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"x"},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c","adminAccess":true}}]}}}`,
			422, "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"},
		{"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", table, `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"verb":"get"}}}`, 406, media},
		{"/apis/authentication.k8s.io/v1/selfsubjectreviews", table, `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`, 406, media},
		{"/apis/authentication.k8s.io/v1/selfsubjectreviews", table + ",application/json", `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`, 201, ""},
		{"/api/v1/namespaces", "", "{", 400, "the object provided is unrecognized (must be of type Namespace): couldn't get version/kind; json parse error: unexpected end of JSON input ({)"},
		{"/api/v1/namespaces", "", "[]", 400, "must be of type Namespace): couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string"},
		{"/api/v1/namespaces", "", `{"kind":"Namespace","apiVersion":"a/b/c"}`, 400, `the object provided is unrecognized (must be of type Namespace): unexpected GroupVersion string: a/b/c ({"kind":"Namespace","apiVersio ...)`},
		{"/api/v1/namespaces", "", `{"kind":"Namespace","metadata":3}`, 400, `Namespace in version "v1" cannot be handled as a Namespace: json: cannot unmarshal number`},
		// kube-apiserver ends this with the names of its own Go types.
		{"/api/v1/namespaces", "", `{"kind":"Pod","metadata":{"name":"x"}}`, 400, `Pod in version "v1" cannot be handled as a Namespace: `},
	} {
		r := post(c, w.path, w.accept, w.body).Do(t.Context())
		code, says := 0, ""
		if r.StatusCode(&code); r.Error() != nil {
			says = r.Error().Error()
		}
		if code != w.code || !strings.Contains(says, w.says) {
			t.Errorf("%s %s:\n got %d %s\nwant %d %s", w.path, w.body, code, says, w.code, w.says)
		}
	}
}

func post(c rest.Interface, path, accept, body string) *rest.Request {
	r := c.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(body))
	if accept != "" {
		r.SetHeader("Accept", accept)
	}
	return r
}
