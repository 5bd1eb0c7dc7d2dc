package rules

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// check runs a rule on the value at "v" and returns "path Reason", sorted.
func check(rule func(e Errors)) []string {
	e := At(field.NewPath("v"))
	rule(e)
	return faults(e.List())
}

func faults(errs field.ErrorList) []string {
	out := []string{}
	for _, err := range errs {
		out = append(out, err.Field+" "+strings.TrimPrefix(string(err.Type), "FieldValue"))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	v := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestFields(t *testing.T) {
	tests := []struct {
		name string
		rule func(e Errors)
		want []string
	}{
		{"port", func(e Errors) { e.Port("p", 65536) }, []string{"v.p Invalid"}},
		{"port by name", func(e Errors) { e.PortOrName("p", intstr.FromString("no name")) }, []string{"v.p Invalid"}},
		{"port by number", func(e Errors) { e.PortOrName("p", intstr.FromInt32(80)) }, nil},
		{"address in an old spelling", func(e Errors) { e.Field("ip").IP("1.2.3.04", nil) }, []string{"v.ip Invalid"}},
		{"the same, stored", func(e Errors) { e.Field("ip").IP("1.2.3.04", []string{"1.2.3.04"}) }, nil},
		{"loopback", func(e Errors) { e.Field("ip").EndpointIP("::1") }, []string{"v.ip Invalid"}},
		{"absolute path", func(e Errors) { e.RelativePath("p", "/a") }, []string{"v.p Invalid"}},
		{"path upwards", func(e Errors) { e.NoBacksteps("p", "a/../b") }, []string{"v.p Invalid"}},
		{"dots in a name", func(e Errors) { e.NoBacksteps("p", "a..b") }, nil},
		{"reserved file", func(e Errors) { e.VolumeFile("p", "..data") }, []string{"v.p Invalid"}},
		{"mode", func(e Errors) { m := int32(0o1000); e.FileMode("m", &m) }, []string{"v.m Invalid"}},
		{"driver", func(e Errors) { e.CSIDriverName("d", strings.Repeat("a", 64)) }, []string{"v.d TooLong"}},
		{"one of", func(e Errors) { OneOf(e, "x", "c", []string{"a", "b"}) }, []string{"v.x NotSupported"}},
		{"required one of", func(e Errors) { RequiredOneOf(e, "x", "", []string{"a", "b"}) }, []string{"v.x Required"}},
		{"signer", func(e Errors) { SignerName("example.com/a.b", e) }, nil},
		{"signer without domain", func(e Errors) { SignerName("a/b", e) }, []string{"v Invalid"}},
	}
	for _, tt := range tests {
		if got := check(tt.rule); !slices.Equal(got, append([]string{}, tt.want...)) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestResourceNames(t *testing.T) {
	tests := []struct {
		name                           corev1.ResourceName
		any, container, quota, integer bool
	}{
		{"cpu", true, true, true, false},
		{"storage", true, false, false, false},
		{"pods", true, false, true, true},
		{"hugepages-2Mi", true, true, true, false},
		{"requests.hugepages-2Mi", true, false, true, false},
		{"example.com/gpu", true, true, true, true},
		{"requests.example.com/gpu", true, false, true, false},
		{"kubernetes.io/x", true, true, true, false},
		{"gpu", false, false, false, false},
		{"a b", false, false, false, false},
	}
	half := resource.MustParse("500m")
	for _, tt := range tests {
		ok := func(rule func(e Errors)) bool { return len(check(rule)) == 0 }
		if got := ok(func(e Errors) { e.ResourceName(tt.name) }); got != tt.any {
			t.Errorf("%s is a resource: %v", tt.name, got)
		}
		if got := ok(func(e Errors) { e.ContainerResourceName(tt.name) }); got != tt.container {
			t.Errorf("%s is a resource of containers: %v", tt.name, got)
		}
		if got := ok(func(e Errors) { e.QuotaResourceName(tt.name) }); got != tt.quota {
			t.Errorf("%s is a resource of quotas: %v", tt.name, got)
		}
		if got := !ok(func(e Errors) { e.Quantity(tt.name, half) }); got != tt.integer {
			t.Errorf("%s comes in whole numbers: %v", tt.name, got)
		}
	}
}

func TestWholePages(t *testing.T) {
	for text, want := range map[string]bool{"4Mi": true, "3Mi": false, "0": true} {
		if got := WholePages("hugepages-2Mi", resource.MustParse(text)); got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
	if WholePages("hugepages-0", resource.MustParse("1Mi")) || WholePages("hugepages-x", resource.MustParse("1Mi")) {
		t.Error("pages without a size")
	}
}

func TestNodeSelector(t *testing.T) {
	s := parse[corev1.NodeSelector](t, `{nodeSelectorTerms: [{matchExpressions: [
		{key: a, operator: In}, {key: a, operator: Exists, values: [b]}, {key: a, operator: Gt, values: ["1", "2"]}, {key: "", operator: X}, {key: a, operator: In, values: ["-"]}],
		matchFields: [{key: metadata.name, operator: In, values: [A]}, {key: x, operator: Exists}]}]}`)
	want := []string{
		"v.nodeSelectorTerms[0].matchExpressions[0].values Required", "v.nodeSelectorTerms[0].matchExpressions[1].values Forbidden",
		"v.nodeSelectorTerms[0].matchExpressions[2].values Required", "v.nodeSelectorTerms[0].matchExpressions[3].key Invalid",
		"v.nodeSelectorTerms[0].matchExpressions[3].operator Invalid", "v.nodeSelectorTerms[0].matchExpressions[4].values[0] Invalid",
		"v.nodeSelectorTerms[0].matchFields[0].values[0] Invalid", "v.nodeSelectorTerms[0].matchFields[1].key Invalid",
		"v.nodeSelectorTerms[0].matchFields[1].operator Invalid",
	}
	if got := check(func(e Errors) { NodeSelector(s, false, e) }); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !InvalidNodeSelectorValues(s) {
		t.Error("the value that is none is not found")
	}
	if got := check(func(e Errors) { NodeSelector(&corev1.NodeSelector{}, false, e) }); !slices.Equal(got, []string{"v.nodeSelectorTerms Required"}) {
		t.Errorf("no terms: got %q", got)
	}
}

func TestClaimSpec(t *testing.T) {
	tests := []struct {
		text string
		want []string
	}{
		{`{accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`, nil},
		{`{}`, []string{"v.accessModes Required", "v.resources[storage] Required"}},
		{`{accessModes: [ReadWriteOncePod, ReadOnlyMany, X], resources: {requests: {storage: "0"}}}`,
			[]string{"v.accessModes Forbidden", "v.accessModes NotSupported", "v.resources[storage] Invalid"}},
		{`{accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, dataSource: {kind: X, name: ""}, dataSourceRef: {kind: Y, name: y, apiGroup: a_b}}`,
			[]string{"v Invalid", "v.dataSource Invalid", "v.dataSource.name Required", "v.dataSourceRef.apiGroup Invalid"}},
	}
	for _, tt := range tests {
		s := parse[corev1.PersistentVolumeClaimSpec](t, tt.text)
		if got := check(func(e Errors) { ClaimSpec(s, e, ClaimOptions{}) }); !slices.Equal(got, append([]string{}, tt.want...)) {
			t.Errorf("%s: got %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestVolumeSpec(t *testing.T) {
	const base = `capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], `
	tests := []struct {
		text string
		want []string
	}{
		{`{` + base + `hostPath: {path: /a}}`, nil},
		{`{` + base + `hostPath: {path: /}, persistentVolumeReclaimPolicy: Recycle}`, []string{"v.persistentVolumeReclaimPolicy Forbidden"}},
		{`{` + base + `hostPath: {path: /a}, nfs: {server: s, path: p}}`, []string{"v.nfs Forbidden"}},
		{`{` + base + `hostPath: {path: /a}, flexVolume: {driver: d}}`, nil},
		{`{` + base + `}`, []string{"v Required"}},
		{`{` + base + `local: {path: ../a}}`, []string{"v.local.path Invalid", "v.nodeAffinity Required"}},
		{`{` + base + `gcePersistentDisk: {pdName: "", partition: 256}}`, []string{"v.persistentDisk.partition Invalid", "v.persistentDisk.pdName Required"}},
		{`{` + base + `iscsi: {targetPortal: p, iqn: x, lun: -1, chapAuthSession: true}}`,
			[]string{"v.iscsi.iqn Invalid", "v.iscsi.lun Invalid", "v.iscsi.secretRef Required"}},
		{`{` + base + `csi: {driver: d, volumeHandle: "", nodeStageSecretRef: {}, nodePublishSecretRef: {}}}`,
			[]string{"v.csi.nodePublishSecretRef.name Required", "v.csi.nodePublishSecretRef.namespace Required", "v.csi.volumeHandle Required"}},
		{`{` + base + `nfs: {server: s, path: /p}, volumeAttributesClassName: ""}`, []string{"v.csi Required", "v.volumeAttributesClassName Required"}},
		{`{capacity: {storage: 1Gi, cpu: 1}, nfs: {server: s, path: p}}`, []string{"v.accessModes Required", "v.capacity NotSupported", "v.nfs.path Invalid"}},
	}
	for _, tt := range tests {
		s := parse[corev1.PersistentVolumeSpec](t, tt.text)
		if got := faults(VolumeSpec(s, "a", field.NewPath("v"), VolumeOptions{})); !slices.Equal(got, append([]string{}, tt.want...)) {
			t.Errorf("%s: got %q, want %q", tt.text, got, tt.want)
		}
	}
	inline := parse[corev1.PersistentVolumeSpec](t, `{`+base+`hostPath: {path: /a}, storageClassName: c, claimRef: {}, volumeMode: Block, persistentVolumeReclaimPolicy: Delete}`)
	want := []string{
		"v.capacity Forbidden", "v.claimRef Forbidden", "v.csi Required", "v.persistentVolumeReclaimPolicy Forbidden",
		"v.storageClassName Forbidden", "v.volumeMode Forbidden",
	}
	if got := faults(InlineVolumeSpec(inline, "a", field.NewPath("v"))); !slices.Equal(got, want) {
		t.Errorf("inline: got %q, want %q", got, want)
	}
}

func TestTemplateMeta(t *testing.T) {
	m := parse[metav1.ObjectMeta](t, `{name: a, uid: u, labels: {"": b}, finalizers: []}`)
	want := []string{"v.finalizers Forbidden", "v.labels Invalid", "v.name Forbidden", "v.uID Forbidden"}
	if got := check(func(e Errors) { TemplateMeta(m, e) }); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestObjectMeta(t *testing.T) {
	m := parse[metav1.ObjectMeta](t, `{name: a, namespace: b, finalizers: [kubernetes, example.com/x, mine]}`)
	if got := faults(ObjectMeta(m, true, Subdomain)); !slices.Equal(got, []string{"metadata.finalizers[2] Invalid"}) {
		t.Errorf("got %q", got)
	}
	m = parse[metav1.ObjectMeta](t, `{name: A, generateName: A, namespace: b}`)
	if got := faults(ObjectMetaOfName(m, true, Subdomain)); !slices.Equal(got, []string{"metadata.name Invalid"}) {
		t.Errorf("got %q", got)
	}
}

func TestWarnings(t *testing.T) {
	path := field.NewPath("v")
	term := parse[corev1.NodeSelectorTerm](t, `{matchExpressions: [{key: beta.kubernetes.io/os, operator: In, values: ["-"]}]}`)
	for name, tt := range map[string]struct {
		got  []string
		want int
	}{
		"address":                    {WarnIP(path, "2001:DB8::1"), 1},
		"no address":                 {WarnIP(path, "x"), 0},
		"range with more bits":       {WarnCIDR(path, "1.2.3.4/24"), 1},
		"old label":                  {WarnNodeSelectorTerm(term, false, path), 1},
		"old label and value":        {WarnNodeSelectorTerm(term, true, path), 2},
		"name that is no host":       {DNSPrefixWarning("a.b", "names"), 1},
		"name that is part of a one": {DNSPrefixWarning("a-b", "names"), 0},
	} {
		if len(tt.got) != tt.want {
			t.Errorf("%s: got %q, want %d", name, tt.got, tt.want)
		}
	}
}
