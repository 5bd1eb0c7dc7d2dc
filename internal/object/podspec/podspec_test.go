package podspec

import (
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

func readPod(t testing.TB, file string) *corev1.Pod {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return parsePod(t, string(text))
}

func parsePod(t testing.TB, text string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	return p
}

// faults formats the errors as "path reason", sorted.
func faults(errs field.ErrorList) []string {
	out := []string{}
	for _, e := range errs {
		out = append(out, e.Field+" "+strings.TrimPrefix(string(e.Type), "FieldValue"))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestWholePodIsValid(t *testing.T) {
	p := readPod(t, "testdata/web.yaml")
	Policy{}.DefaultPod(p)
	if errs := ValidateSpec(&p.Spec, &p.ObjectMeta, field.NewPath("spec"), Options{Pod: true}); len(errs) > 0 {
		t.Errorf("a valid pod has errors: %v", errs.ToAggregate())
	}
	if w := WarnPod(p); len(w) > 0 {
		t.Errorf("a sensible pod has warnings: %q", w)
	}
}

// TestValidate changes one thing in a valid pod and compares the errors.
func TestValidate(t *testing.T) {
	tests := []struct {
		name   string
		change func(p *corev1.Pod)
		want   []string
	}{
		{"no containers", func(p *corev1.Pod) { p.Spec.Containers = nil }, []string{"spec.containers Required"}},
		{"name taken by an init container", func(p *corev1.Pod) { p.Spec.InitContainers[0].Name = "web" }, []string{"spec.initContainers[0].name Duplicate"}},
		{"bad volume takes its mounts along", func(p *corev1.Pod) { p.Spec.Volumes[1].ConfigMap.Name = "" },
			[]string{"spec.containers[1].volumeMounts[0].name NotFound", "spec.volumes[1].configMap.name Required"}},
		{"two sources", func(p *corev1.Pod) { p.Spec.Volumes[2].HostPath = &corev1.HostPathVolumeSource{Path: "/"} },
			[]string{"spec.containers[0].volumeMounts[1].name NotFound", "spec.containers[1].volumeMounts[1].name NotFound",
				"spec.initContainers[0].volumeMounts[1].name NotFound", "spec.volumes[2].hostPath Forbidden"}},
		{"downwardAPI misspelt", func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "x", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{}, DownwardAPI: &corev1.DownwardAPIVolumeSource{}}})
		}, []string{"spec.volumes[5].downwarAPI Forbidden"}},
		{"mount paths repeat", func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts[1].MountPath = "/etc/app" },
			[]string{"spec.containers[0].volumeMounts[1].mountPath Invalid"}},
		{"sub path upwards", func(p *corev1.Pod) { p.Spec.Containers[1].VolumeMounts[1].SubPath = "../x" },
			[]string{"spec.containers[1].volumeMounts.subPath Invalid"}},
		{"request above limit", func(p *corev1.Pod) {
			p.Spec.Containers[1].Resources.Requests["memory"] = p.Spec.Containers[0].Resources.Limits["memory"]
		}, []string{"spec.containers[1].resources.requests Invalid"}},
		{"unknown field of the pod", func(p *corev1.Pod) { p.Spec.Containers[0].Env[0].ValueFrom.FieldRef.FieldPath = "spec.x" },
			[]string{"spec.containers[0].env[0].valueFrom.fieldRef.fieldPath Invalid"}},
		{"field that cannot be told", func(p *corev1.Pod) { p.Spec.Containers[0].Env[0].ValueFrom.FieldRef.FieldPath = "status.phase" },
			[]string{"spec.containers[0].env[0].valueFrom.fieldRef.fieldPath NotSupported"}},
		{"liveness by two successes", func(p *corev1.Pod) { p.Spec.Containers[0].LivenessProbe.SuccessThreshold = 2 },
			[]string{"spec.containers[0].livenessProbe.successThreshold Invalid"}},
		{"probe of an init container", func(p *corev1.Pod) { p.Spec.InitContainers[0].LivenessProbe = p.Spec.Containers[0].LivenessProbe },
			[]string{"spec.initContainers[0].livenessProbe Forbidden"}},
		{"constraint repeats", func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, p.Spec.TopologySpreadConstraints[0])
		}, []string{"spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable} Duplicate"}},
		{"DNS policy without servers", func(p *corev1.Pod) { p.Spec.DNSPolicy = corev1.DNSNone }, []string{"spec.dnsConfig Required"}},
		{"linux in windows", func(p *corev1.Pod) {
			p.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
			p.Spec.Containers = p.Spec.Containers[1:]
		},
			[]string{
				"spec.initContainers[1].securityContext.allowPrivilegeEscalation Forbidden",
				"spec.initContainers[1].securityContext.capabilities Forbidden",
				"spec.initContainers[1].securityContext.readOnlyRootFilesystem Forbidden",
				"spec.initContainers[1].securityContext.runAsUser Forbidden",
				"spec.securityContext.fsGroup Forbidden",
				"spec.securityContext.runAsUser Forbidden",
				"spec.securityContext.seccompProfile Forbidden",
			}},
		{"trust bundles", func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, projected(
				corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: new("example.com:signer:bundle"), Path: "a"}},
				corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: new(":bundle"), Path: "b"}},
				corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{SignerName: new("example.com/signer"), Path: "a"}},
				corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}},
			))
		}, []string{
			"spec.volumes[5].projected Invalid",
			"spec.volumes[5].projected.sources[1].clusterTrustBundle.name Invalid",
			"spec.volumes[5].projected.sources[3].clusterTrustBundle Required",
			"spec.volumes[5].projected.sources[3].clusterTrustBundle.path Required",
		}},
		{"pod certificates", func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, projected(
				corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{
					SignerName: "example.com/signer", KeyType: "ED25519", MaxExpirationSeconds: new(int32(100000)), CredentialBundlePath: "a",
					UserAnnotations: map[string]string{"example.com/a": "b"},
				}},
				corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{
					SignerName: "kubernetes.io/signer", KeyType: "RSA2048", MaxExpirationSeconds: new(int32(100000)),
					UserAnnotations: map[string]string{"a": "b"},
				}},
			))
		}, []string{
			"spec.volumes[5].projected.sources[1].podCertificate Required",
			"spec.volumes[5].projected.sources[1].podCertificate.keyType NotSupported",
			"spec.volumes[5].projected.sources[1].podCertificate.maxExpirationSeconds Invalid",
			"spec.volumes[5].projected.sources[1].podCertificate.userAnnotations Invalid",
		}},
		{"claims of the pod's resources", func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
			p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}, {Name: "none"}}
		}, []string{"spec.containers[0].resources.claims[1] NotFound", "spec.resourceClaims[0] Invalid"}},
	}
	base := readPod(t, "testdata/web.yaml")
	Policy{}.DefaultPod(base)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := base.DeepCopy()
			tt.change(p)
			got := faults(ValidateSpec(&p.Spec, &p.ObjectMeta, field.NewPath("spec"), Options{Pod: true}))
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

// TestCertificateLifetimeWords compares the messages that conformance compares.
func TestCertificateLifetimeWords(t *testing.T) {
	base := readPod(t, "testdata/web.yaml")
	Policy{}.DefaultPod(base)
	for _, tt := range []struct {
		signer  string
		seconds int32
		want    string
	}{
		{"example.com/signer", 3599, "if provided, maxExpirationSeconds must be >= 3600"},
		{"example.com/signer", 3600, ""},
		{"example.com/signer", 91 * 24 * 3600, ""},
		{"example.com/signer", 91*24*3600 + 1, "if provided, maxExpirationSeconds must be <= 7862400"},
		{"kubernetes.io/signer", 24*3600 + 1, "if provided, maxExpirationSeconds must be <= 86400"},
	} {
		p := base.DeepCopy()
		p.Spec.Volumes = append(p.Spec.Volumes, projected(corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{
			SignerName: tt.signer, KeyType: "ED25519", MaxExpirationSeconds: new(tt.seconds), CredentialBundlePath: "a",
		}}))
		got := ""
		for _, err := range ValidateSpec(&p.Spec, &p.ObjectMeta, field.NewPath("spec"), Options{Pod: true}) {
			got += err.Detail
		}
		if got != tt.want {
			t.Errorf("%s, %d s: %q, not %q", tt.signer, tt.seconds, got, tt.want)
		}
	}
}

func projected(sources ...corev1.VolumeProjection) corev1.Volume {
	v := corev1.Volume{Name: "v"}
	v.Projected = &corev1.ProjectedVolumeSource{DefaultMode: new(int32(0o644)), Sources: sources}
	return v
}

// TestRatchet checks that stored values stay valid although new ones are rejected.
func TestRatchet(t *testing.T) {
	tests := []struct {
		name, spec string
	}{
		{"selector value", `{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z, labelSelector: {matchExpressions: [{key: a, operator: In, values: ["-"]}]}}]}}}`},
		{"node affinity value", `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: ["-"]}]}]}}}}`},
		{"spread selector", `{topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: "-"}}}]}`},
		{"token path", `{volumes: [{name: t, projected: {sources: [{serviceAccountToken: {path: ../t}}]}}]}`},
		{"sysctl of the node", `{hostNetwork: true, securityContext: {sysctls: [{name: net.core.somaxconn, value: "1"}]}}`},
		{"comparing toleration", `{tolerations: [{key: a, operator: Gt, value: "1"}]}`},
		{"node's network with own users", `{hostNetwork: true, hostUsers: false}`},
		{"half a huge page", `{containers: [{name: a, image: a, resources: {limits: {hugepages-2Mi: 1Mi, cpu: 1}, requests: {hugepages-2Mi: 1Mi}}}]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := parsePod(t, "{metadata: {name: a}, spec: "+tt.spec+"}")
			if p.Spec.Containers == nil {
				p.Spec.Containers = []corev1.Container{{Name: "a", Image: "a"}}
			}
			Policy{}.DefaultPod(p)
			path := field.NewPath("spec")
			if errs := ValidateSpec(&p.Spec, &p.ObjectMeta, path, Options{Pod: true}); len(errs) == 0 {
				t.Error("a new pod may have it")
			}
			o := OptionsFor(Policy{}, &p.Spec, &p.ObjectMeta)
			if errs := ValidateSpec(&p.Spec, &p.ObjectMeta, path, o); len(errs) > 0 {
				t.Errorf("a stored pod may not keep it: %v", errs.ToAggregate())
			}
		})
	}
}

func TestDropDisabled(t *testing.T) {
	const text = `{metadata: {name: a}, spec: {os: {name: linux}, containers: [{name: a, image: a, lifecycle: {stopSignal: SIGUSR1}}]}}`
	p := parsePod(t, text)
	Policy{}.DropDisabled(&p.Spec, nil)
	if p.Spec.Containers[0].Lifecycle != nil {
		t.Errorf("a new pod keeps what is switched off: %+v", p.Spec)
	}
	p, old := parsePod(t, text), parsePod(t, text)
	Policy{}.DropDisabled(&p.Spec, &old.Spec)
	if p.Spec.Containers[0].Lifecycle == nil {
		t.Errorf("a stored pod loses what it had: %+v", p.Spec)
	}
	everything(t).DropDisabled(&p.Spec, nil)
	if p.Spec.Containers[0].Lifecycle == nil {
		t.Errorf("a new pod loses what is switched on: %+v", p.Spec)
	}
}

func TestWarnings(t *testing.T) {
	tests := []struct {
		name, spec string
		want       int
	}{
		{"repeated variable", `{containers: [{name: a, image: a, env: [{name: X, value: "1"}, {name: X, value: "2"}]}]}`, 1},
		{"extended variable", `{containers: [{name: a, image: a, env: [{name: X, value: "1"}, {name: X, value: "$(X)2"}]}]}`, 0},
		{"repeated port", `{containers: [{name: a, image: a, ports: [{containerPort: 80, name: p}]}, {name: b, image: b, ports: [{containerPort: 80, name: p}]}]}`, 2},
		{"files hide each other", `{volumes: [{name: v, configMap: {name: c, items: [{key: a, path: a}, {key: b, path: a/b}]}}]}`, 1},
		{"empty projection", `{volumes: [{name: v, projected: {sources: [{}]}}]}`, 1},
		{"old node label", `{nodeSelector: {beta.kubernetes.io/os: linux}}`, 1},
		{"null selector", `{topologySpreadConstraints: [{topologyKey: a}]}`, 1},
		{"fraction of a byte", `{containers: [{name: a, image: a, resources: {limits: {memory: 100m}}}]}`, 1},
		{"deprecated volume", `{volumes: [{name: v, gitRepo: {repository: r}}]}`, 1},
		{"address with zeros", `{hostAliases: [{ip: 1.2.3.04}]}`, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := parsePod(t, "{metadata: {name: a}, spec: "+tt.spec+"}")
			if got := WarnPod(p); len(got) != tt.want {
				t.Errorf("got %d warnings, want %d: %q", len(got), tt.want, got)
			}
		})
	}
}

func BenchmarkDefaultPod(b *testing.B) {
	base := readPod(b, "testdata/web.yaml")
	pods := make([]*corev1.Pod, 64)
	for i := 0; b.Loop(); i++ {
		if i%len(pods) == 0 {
			b.StopTimer()
			for j := range pods {
				pods[j] = base.DeepCopy()
			}
			b.StartTimer()
		}
		Policy{}.DefaultPod(pods[i%len(pods)])
	}
}

func BenchmarkValidatePod(b *testing.B) {
	p := readPod(b, "testdata/web.yaml")
	Policy{}.DefaultPod(p)
	path := field.NewPath("spec")
	b.ReportAllocs()
	for b.Loop() {
		ValidateSpec(&p.Spec, &p.ObjectMeta, path, Options{Pod: true})
	}
}
