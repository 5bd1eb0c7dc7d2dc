package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/process/config"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
)

// alone leaves out of short runs, which are those under the race detector, a test in whose server one client asks at a time: what goes
// on in it beside that client does so in the servers of all other tests.
func alone(t *testing.T, short bool) {
	if short {
		t.Skip("one client asks at a time")
	}
}

// start runs a server without a socket until the test ends.
func start(t testing.TB) *server {
	t.Helper()
	return startWith(t, func(*config.Config) {})
}

var masters = &user.DefaultInfo{Name: "admin", Groups: []string{"system:masters"}}

// do sends a request through the whole chain, in the caller's goroutine.
func do(t testing.TB, s *server, method, path, contentType, accept string, body []byte, want int) []byte {
	t.Helper()
	req := httptest.NewRequest(method, path, bytes.NewReader(body))
	req = req.WithContext(inprocess.WithUser(req.Context(), masters))
	req.Header.Set("User-Agent", "bench/1")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, req)
	if w.Code != want {
		t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	return w.Body.Bytes()
}

// discard is a ResponseWriter that drops the body.
type discard struct {
	h    http.Header
	code int
	n    int
}

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) WriteHeader(code int)        { d.code = code }
func (d *discard) Write(p []byte) (int, error) { d.n += len(p); return len(p), nil }
func (d *discard) Flush()                      {}

// pod returns a pod of about 6 KB, as is typical in clusters.
func pod(name string) *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default",
			Labels:      map[string]string{"app": "web", "pod-template-hash": "5d4f8c7b9", "tier": "front"},
			Annotations: map[string]string{"example.com/config-hash": "0123456789abcdef0123456789abcdef", "example.com/owner": "team-a"}},
	}
	for n := range 3 {
		c := corev1.Container{
			Name: fmt.Sprintf("c%d", n), Image: "registry.example.com/team/app:v1.2.3",
			Args:  []string{"--listen=:8080", "--log-level=info", "--config=/etc/app/config.yaml"},
			Ports: []corev1.ContainerPort{{Name: fmt.Sprintf("http%d", n), ContainerPort: int32(8080 + n)}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
				Limits:   corev1.ResourceList{"memory": resource.MustParse("256Mi")}},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app"}, {Name: "data", MountPath: "/var/lib/app"}},
		}
		for k := range 6 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", k), Value: "some-value-of-a-setting"})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	p.Spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "app"}}}},
		{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	return p
}

func podJSON(t testing.TB, name string) []byte {
	b, err := json.Marshal(pod(name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const pods = "/api/v1/namespaces/default/pods"

// withAccount creates the service account that pods run under.
func withAccount(t testing.TB, s *server) {
	do(t, s, "POST", "/api/v1/namespaces/default/serviceaccounts", "application/json", "", []byte(`{"metadata":{"name":"default"}}`), 201)
}

func BenchmarkCreatePod(b *testing.B) {
	s := start(b)
	withAccount(b, s)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		do(b, s, "POST", pods, "application/json", "", podJSON(b, fmt.Sprintf("p%d", n)), 201)
	}
}

func benchRead(b *testing.B, objects int, path, accept string) {
	s := start(b)
	withAccount(b, s)
	for n := range objects {
		do(b, s, "POST", pods, "application/json", "", podJSON(b, fmt.Sprintf("p%d", n)), 201)
	}
	b.ReportAllocs()
	for b.Loop() {
		req := httptest.NewRequest("GET", path, nil)
		req = req.WithContext(inprocess.WithUser(req.Context(), masters))
		req.Header.Set("Accept", accept)
		w := &discard{h: http.Header{}}
		s.handler.ServeHTTP(w, req)
		if w.code != 200 {
			b.Fatal(w.code)
		}
	}
}

func BenchmarkGetPod(b *testing.B)         { benchRead(b, 10, pods+"/p1", "application/json") }
func BenchmarkGetPodProtobuf(b *testing.B) { benchRead(b, 10, pods+"/p1", protobufType) }
func BenchmarkListPods(b *testing.B)       { benchRead(b, 1000, pods, "application/json") }
func BenchmarkListPodsProtobuf(b *testing.B) {
	benchRead(b, 1000, pods, protobufType)
}
func BenchmarkListPodsByLabel(b *testing.B) {
	benchRead(b, 1000, pods+"?labelSelector=app%3Dnone", "application/json")
}
func BenchmarkListPodsByNode(b *testing.B) {
	benchRead(b, 1000, pods+"?fieldSelector=spec.nodeName%3Dn1", "application/json")
}

const protobufType = "application/vnd.kubernetes.protobuf"

func benchPatch(b *testing.B, contentType, query string, body func(n int) []byte) {
	s := start(b)
	withAccount(b, s)
	do(b, s, "POST", pods, "application/json", "", podJSON(b, "p"), 201)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		do(b, s, "PATCH", pods+"/p"+query, contentType, "", body(n), 200)
	}
}

func BenchmarkMergePatch(b *testing.B) {
	benchPatch(b, "application/merge-patch+json", "", func(n int) []byte {
		return fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, n)
	})
}

func BenchmarkStatusPatch(b *testing.B) {
	benchPatch(b, "application/strategic-merge-patch+json", "/status", func(n int) []byte {
		return fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","message":"%d"}]}}`, n)
	})
}

// BenchmarkRenewLease renews a lease in protobuf, as each node does every ten seconds.
func BenchmarkRenewLease(b *testing.B) {
	const leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	s := start(b)
	holder, seconds := "node-1", int32(40)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds}}
	send := func(method, path string, want int) {
		raw, err := lease.Marshal()
		if err != nil {
			b.Fatal(err)
		}
		body, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}, Raw: raw}).Marshal()
		if err != nil {
			b.Fatal(err)
		}
		answer := do(b, s, method, path, protobufType, protobufType, append([]byte("k8s\x00"), body...), want)
		u := runtime.Unknown{}
		lease.Reset()
		if err := u.Unmarshal(answer[4:]); err != nil || lease.Unmarshal(u.Raw) != nil {
			b.Fatal(err, "not a lease")
		}
	}
	send("POST", leases, 201)
	b.ReportAllocs()
	for n := int64(0); b.Loop(); n++ {
		now := metav1.NewMicroTime(time.UnixMicro(n))
		lease.Spec.RenewTime = &now
		send("PUT", leases+"/node-1", 200)
	}
}

// BenchmarkReapply applies an unchanged configuration again, as controllers and GitOps tools do.
func BenchmarkReapply(b *testing.B) {
	config := map[string]any{}
	if err := json.Unmarshal(podJSON(b, "p"), &config); err != nil {
		b.Fatal(err)
	}
	delete(config, "status")
	body, err := json.Marshal(config)
	if err != nil {
		b.Fatal(err)
	}
	benchPatch(b, "application/apply-patch+yaml", "?fieldManager=bench", func(int) []byte { return body })
}

func BenchmarkApply(b *testing.B) {
	benchPatch(b, "application/apply-patch+yaml", "?fieldManager=bench", func(n int) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{"n":"%d"}}}`, n)
	})
}

// BenchmarkApplyNew applies ConfigMaps that are not there yet.
func BenchmarkApplyNew(b *testing.B) {
	s := start(b)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m%d","labels":{"app":"web"}},"data":{"a":"some text","b":"more text"}}`, n)
		do(b, s, "PATCH", fmt.Sprintf("/api/v1/namespaces/default/configmaps/m%d?fieldManager=bench", n), "application/apply-patch+yaml", "", body, 201)
	}
}

// BenchmarkApplyForced takes a field from another manager, each time.
func BenchmarkApplyForced(b *testing.B) {
	s := start(b)
	withAccount(b, s)
	do(b, s, "POST", pods, "application/json", "", podJSON(b, "p"), 201)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{"n":"%d"}}}`, n)
		do(b, s, "PATCH", fmt.Sprintf("%s/p?force=true&fieldManager=bench%d", pods, n%2), "application/apply-patch+yaml", "", body, 200)
	}
}
