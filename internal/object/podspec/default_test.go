package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/object/features"
)

func TestPullPolicyTag(t *testing.T) {
	const sum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	tests := []struct{ image, want string }{
		{"nginx", "latest"},
		{"nginx:latest", "latest"},
		{"nginx:1.2", "1.2"},
		{"a/b/c", "latest"},
		{"localhost/a", "latest"},
		{"localhost:5000/a:v1", "v1"},
		{"registry.example.com/a", "latest"},
		{"[::1]:5000/a:v", "v"},
		{"Registry/a", "latest"}, // a host, because of the capital letter
		{"a@sha256:" + sum, ""},
		{"a:latest@sha256:" + sum, "latest"},
		{"a@sha256:" + sum[1:], ""},
		{"a@md5:" + sum[:32], ""},
		{sum, ""},
		{"Nginx", ""},
		{"a:", ""},
		{"a:.b", ""},
		{"a__b.c-d--e", "latest"},
		{"a..b", ""},
		{"a___b", ""},
		{"-a", ""},
		{"a-", ""},
		{"a//b", ""},
		{"", ""},
	}
	for _, tt := range tests {
		if got := pullPolicyTag(tt.image); got != tt.want {
			t.Errorf("pullPolicyTag(%q) = %q, want %q", tt.image, got, tt.want)
		}
	}
}

func TestDefaultPod(t *testing.T) {
	p := parsePod(t, `
metadata: {name: a, annotations: {pod.beta.kubernetes.io/init-containers: "[]"}}
spec:
  serviceAccount: old
  hostNetwork: true
  terminationGracePeriodSeconds: -5
  resources: {limits: {cpu: "2", memory: 1Gi}}
  containers:
  - {name: a, image: a, ports: [{containerPort: 80}], resources: {limits: {cpu: 100100u}}}
status: {podIP: 1.2.3.4, podIPs: [{ip: 1.2.3.5}]}`)
	Policy{}.DefaultPod(p)
	Policy{}.CompletePodResources(&p.Spec)
	s, c := &p.Spec, &p.Spec.Containers[0]
	for name, ok := range map[string]bool{
		"service account alias": s.ServiceAccountName == "old" && s.DeprecatedServiceAccount == "old",
		"grace period":          *s.TerminationGracePeriodSeconds == 1,
		"host port":             c.Ports[0].HostPort == 80 && c.Ports[0].Protocol == corev1.ProtocolTCP,
		"pull policy":           c.ImagePullPolicy == corev1.PullAlways,
		"request from limit":    c.Resources.Requests.Cpu().String() == "101m",
		"pod request of cpu":    s.Resources.Requests.Cpu().Cmp(*c.Resources.Requests.Cpu()) <= 0 && !s.Resources.Requests.Cpu().IsZero(),
		"pod request of memory": s.Resources.Requests.Memory().String() == "1Gi",
		"security context":      s.SecurityContext != nil,
		"service links":         s.EnableServiceLinks != nil && *s.EnableServiceLinks,
		"address":               len(p.Status.PodIPs) == 1 && p.Status.PodIPs[0].IP == "1.2.3.4",
		"old annotation":        len(p.Annotations) == 0,
	} {
		if !ok {
			t.Errorf("%s: not as expected in %+v", name, p)
		}
	}
}

func TestQOSClass(t *testing.T) {
	tests := []struct {
		spec string
		want corev1.PodQOSClass
	}{
		{`{containers: [{name: a, image: a}]}`, corev1.PodQOSBestEffort},
		{`{containers: [{name: a, image: a, resources: {limits: {cpu: 1, memory: 1Gi}}}]}`, corev1.PodQOSGuaranteed},
		{`{containers: [{name: a, image: a, resources: {limits: {cpu: 1}}}]}`, corev1.PodQOSBurstable},
		{`{containers: [{name: a, image: a, resources: {limits: {cpu: 1, memory: 1Gi}}}, {name: b, image: b}]}`, corev1.PodQOSBurstable},
		{`{resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}, containers: [{name: a, image: a}]}`, corev1.PodQOSGuaranteed},
		{`{resources: {requests: {}, limits: {}}, containers: [{name: a, image: a, resources: {limits: {cpu: 1, memory: 1Gi}}}]}`, corev1.PodQOSGuaranteed},
		{`{resources: {limits: {hugepages-2Mi: 2Mi}}, containers: [{name: a, image: a, resources: {limits: {cpu: 1}}}]}`, corev1.PodQOSBestEffort},
		{`{containers: [{name: a, image: a, resources: {limits: {example.com/x: 1}}}]}`, corev1.PodQOSBestEffort},
	}
	for _, tt := range tests {
		p := parsePod(t, "{metadata: {name: a}, spec: "+tt.spec+"}")
		Policy{}.DefaultPod(p)
		if got := QOSClass(&p.Spec, features.Set{}); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.spec, got, tt.want)
		}
	}
}
