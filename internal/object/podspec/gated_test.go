package podspec

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/features"
)

func gates(t *testing.T, flag string) Policy {
	t.Helper()
	set, err := features.Parse([]string{flag}, features.Now())
	if err != nil {
		t.Fatal(err)
	}
	return Policy{Gates: set}
}

// everything has all features on.
func everything(t *testing.T) Policy { return gates(t, "AllAlpha=true,AllBeta=true") }

func TestGatedFields(t *testing.T) {
	const (
		probe     = `{containers: [{name: a, image: a, livenessProbe: {`
		responder = `{evictionResponders: [{name: `
		mount     = `{volumes: [{name: v, emptyDir: {}}], containers: [{name: a, image: a, volumeMounts: [{name: v, mountPath: /v, `
	)
	for _, c := range []struct {
		name, spec string
		want       []string
	}{
		{"HTTP/2", probe + `httpGet: {port: 80, protocol: HTTP2}}}]}`, nil},
		{"HTTP/3", probe + `httpGet: {port: 80, protocol: HTTP3}}}]}`, []string{"spec.containers[0].livenessProbe.httpGet.protocol NotSupported"}},
		{"HTTP/2 with TLS", probe + `httpGet: {port: 80, protocol: HTTP2, scheme: HTTPS}}}]}`, []string{"spec.containers[0].livenessProbe.httpGet.protocol Invalid"}},
		{"HTTP/2 elsewhere", probe + `httpGet: {port: 80, protocol: HTTP2, host: h}}}]}`, []string{"spec.containers[0].livenessProbe.httpGet.host Invalid"}},
		{"gRPC with TLS", probe + `grpc: {port: 80, mode: TLS}}}]}`, nil},
		{"gRPC", probe + `grpc: {port: 80, mode: X}}}]}`, []string{"spec.containers[0].livenessProbe.grpc.mode NotSupported"}},
		{"owner of files", `{volumes: [{name: v, secret: {secretName: s, defaultUser: -1, items: [{key: k, path: p, user: -1}]}}]}`,
			[]string{"spec.volumes[0].secret.defaultUser Invalid", "spec.volumes[0].secret.items[0].user Invalid"}},
		{"owner of a token", `{volumes: [{name: v, projected: {defaultUser: 1, sources: [{serviceAccountToken: {path: p, user: -1}}]}}]}`,
			[]string{"spec.volumes[0].projected.sources[0].serviceAccountToken.user Invalid"}},
		{"responder", responder + `example.com/a, priority: 1000}]}`, nil},
		{"responder of Kubernetes", responder + `x.k8s.io/a, priority: 1000}]}`, []string{"spec.evictionResponders[0].name Invalid"}},
		{"responder without domain", responder + `a, priority: 1000}]}`, []string{"spec.evictionResponders[0].name Invalid"}},
		{"priority of Kubernetes", responder + `example.com/a, priority: 999}]}`, []string{"spec.evictionResponders[0].priority Invalid"}},
		{"highest priority", responder + `example.com/a, priority: 100001}]}`, []string{"spec.evictionResponders[0].priority Invalid"}},
		{"no priority", responder + `example.com/a}]}`, []string{"spec.evictionResponders[0].priority Required"}},
		{"responders and a group", `{schedulingGroup: {podGroupName: g}, evictionResponders: [{name: example.com/a, priority: 1000}]}`,
			[]string{"spec.schedulingGroup Forbidden"}},
		{"mode of a directory", `{volumes: [{name: v, emptyDir: {mode: 1023}}]}`, nil},
		{"too much of a mode", `{volumes: [{name: v, emptyDir: {mode: 1024}}]}`, []string{"spec.volumes[0].emptyDir.mode Invalid"}},
		{"mount options", mount + `bindMountOptions: [nodev, noexec]}]}]}`, nil},
		{"other mount options", mount + `bindMountOptions: [nodev, nodev, suid]}]}]}`, []string{
			"spec.containers[0].volumeMounts[0].bindMountOptions[1] Duplicate", "spec.containers[0].volumeMounts[0].bindMountOptions[2] NotSupported"}},
		{"comparing toleration", `{tolerations: [{key: a, operator: Gt, value: "1"}]}`, nil},
		{"toleration of no number", `{tolerations: [{key: a, operator: Gt, value: x}]}`, []string{"spec.tolerations[0].value Invalid"}},
		{"node's network with own users", `{hostNetwork: true, hostUsers: false}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := gatedPod(t, c.spec)
			if got := faults(ValidateSpec(&p.Spec, &p.ObjectMeta, field.NewPath("spec"), Options{Pod: true, Policy: everything(t)})); !slices.Equal(got, c.want) {
				t.Errorf("got %q, not %q", got, c.want)
			}
		})
	}
}

func gatedPod(t *testing.T, spec string) *corev1.Pod {
	t.Helper()
	p := parsePod(t, "{metadata: {name: a}, spec: "+spec+"}")
	if p.Spec.Containers == nil {
		p.Spec.Containers = []corev1.Container{{Name: "a", Image: "a"}}
	}
	Policy{}.DefaultPod(p)
	return p
}

// The keys of a spread constraint may be in its selector where they are merged into it, and stay where they no longer are.
func TestSpreadKeys(t *testing.T) {
	p := gatedPod(t, `{topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [a],
		labelSelector: {matchExpressions: [{key: a, operator: In, values: [b]}]}}]}`)
	const refused = "spec.topologySpreadConstraints[0].matchLabelKeys[0] Invalid"
	for _, c := range []struct {
		off    string
		stored bool
		want   []string
	}{
		{"", false, nil},
		{"MatchLabelKeysInPodTopologySpreadSelectorMerge", false, []string{refused}},
		{"MatchLabelKeysInPodTopologySpreadSelectorMerge", true, nil},
		{"MatchLabelKeysInPodTopologySpreadSelectorMerge=false,MatchLabelKeysInPodTopologySpread", true, []string{refused}},
	} {
		policy := Policy{}
		if c.off != "" {
			policy = gates(t, c.off+"=false")
		}
		o := OptionsFor(policy, nil, nil)
		if c.stored {
			o = OptionsFor(policy, &p.Spec, &p.ObjectMeta)
		}
		if got := faults(ValidateSpec(&p.Spec, &p.ObjectMeta, field.NewPath("spec"), o)); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// An old responder stays valid.
func TestOldResponders(t *testing.T) {
	p := gatedPod(t, `{evictionResponders: [{name: x.k8s.io/a, priority: 5}]}`)
	o := OptionsFor(Policy{}, &p.Spec, &p.ObjectMeta)
	p.Spec.EvictionResponders = append(p.Spec.EvictionResponders, corev1.EvictionResponder{Name: "y.k8s.io/a", Priority: new(int32(2000))})
	got := faults(ValidateSpec(&p.Spec, &p.ObjectMeta, field.NewPath("spec"), o))
	if !slices.Equal(got, []string{"spec.evictionResponders[1].name Invalid"}) {
		t.Errorf("got %q", got)
	}
}

func TestDefaultProtocol(t *testing.T) {
	p := parsePod(t, `{metadata: {name: a}, spec: {containers: [{name: a, image: a, livenessProbe: {httpGet: {port: 80}}, lifecycle: {preStop: {httpGet: {port: 80}}}}]}}`)
	c := &p.Spec.Containers[0]
	Policy{}.DefaultPod(p)
	if c.LivenessProbe.HTTPGet.Protocol != nil {
		t.Error("the gate is off, and a probe has a protocol")
	}
	everything(t).DefaultPod(p)
	for _, a := range []*corev1.HTTPGetAction{c.LivenessProbe.HTTPGet, c.Lifecycle.PreStop.HTTPGet} {
		if a.Protocol == nil || *a.Protocol != corev1.HTTPProtocolHTTP1 {
			t.Errorf("protocol %v", a.Protocol)
		}
	}
}

func TestCompletePodResources(t *testing.T) {
	const spec = `{resources: {requests: {cpu: 2, memory: 3Gi}}, containers: [
		{name: a, image: a, resources: {limits: {memory: 1Gi, cpu: 1, hugepages-2Mi: 4Mi}}}, {name: b, image: b, resources: {limits: {memory: 1Gi}}}]}`
	p := gatedPod(t, spec)
	if len(p.Spec.Resources.Limits) > 0 {
		t.Errorf("limits %v are set before webhooks have run", p.Spec.Resources.Limits)
	}
	Policy{}.CompletePodResources(&p.Spec)
	r := p.Spec.Resources
	// Not all containers limit their CPU; the request of memory is more than all containers may have.
	if _, limited := r.Limits["cpu"]; limited || r.Limits.Memory().String() != "3Gi" {
		t.Errorf("limits %v", r.Limits)
	}
	if l, q := r.Limits["hugepages-2Mi"], r.Requests["hugepages-2Mi"]; l.String() != "4Mi" || q.String() != "4Mi" {
		t.Errorf("huge pages: %v of %v", q, l)
	}
	before := gates(t, "PodLevelResourcesFixDefaulting=false")
	p = gatedPod(t, spec)
	before.DefaultPod(p)
	before.CompletePodResources(&p.Spec)
	if l := p.Spec.Resources.Limits; len(l) != 1 {
		t.Errorf("limits without the gate: %v", l)
	}
}

// TestGatesOfValues asks for values of fields that come with a gate: of new pods, and of pods that had such a value.
func TestGatesOfValues(t *testing.T) {
	const (
		rule    = `restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [1]}}]`
		plain   = `restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}]`
		all     = `{containers: [{name: a, image: a, restartPolicy: Never, ` + rule + `}]}`
		sidecar = `{initContainers: [{name: b, image: b, restartPolicy: Always, ` + plain + `}]}`
		mount   = `{securityContext: {seLinuxChangePolicy: MountOption}}`
		restart = "RestartAllContainersOnContainerExits=false"
		selinux = "SELinuxMount=false"
	)
	for _, c := range []struct {
		name, flag, old, spec string
		want                  []string
	}{
		{"restart of all", "", "", all, nil},
		{"restart of all, off", restart, "", all, []string{"spec.containers[0].restartPolicyRules[0].action NotSupported"}},
		{"restart of all, off, as before", restart, all, all, nil},
		{"restart of all, off, after a sidecar's rules", restart, sidecar, all, nil},
		{"restart of one, off", restart, "", `{containers: [{name: a, image: a, restartPolicy: Never, ` + plain + `}]}`, nil},
		{"rules of a sidecar", "", "", sidecar, nil},
		{"rules of a sidecar, off", restart, "", sidecar, []string{"spec.initContainers[0].restartPolicyRules Forbidden"}},
		{"rules of a sidecar, off, as before", restart, sidecar, sidecar, nil},
		{"a sidecar, off", restart, "", `{initContainers: [{name: b, image: b, restartPolicy: Always}]}`, nil},
		{"SELinux by mount option", "", "", mount, nil},
		{"SELinux by mount option, off", selinux, "", mount, []string{"spec.securityContext.seLinuxChangePolicy NotSupported"}},
		{"SELinux by mount option, off, as before", selinux, mount, mount, nil},
		{"SELinux recursively, off", selinux, "", `{securityContext: {seLinuxChangePolicy: Recursive}}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var old *corev1.PodSpec
			if c.old != "" {
				old = &gatedPod(t, c.old).Spec
			}
			p := gatedPod(t, c.spec)
			o := OptionsFor(gates(t, c.flag), old, nil)
			o.Pod = true
			if got := faults(ValidateSpec(&p.Spec, &p.ObjectMeta, field.NewPath("spec"), o)); !slices.Equal(got, c.want) {
				t.Errorf("got %q, not %q", got, c.want)
			}
		})
	}
}
