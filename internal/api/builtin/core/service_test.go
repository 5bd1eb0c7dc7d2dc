package core

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// given formats the values that the server allocated for a service.
func given(s *corev1.Service) string {
	var ports []string
	for _, p := range s.Spec.Ports {
		ports = append(ports, fmt.Sprint(p.NodePort))
	}
	return fmt.Sprintf("%s %v %s %v %d", s.Spec.ClusterIP, s.Spec.ClusterIPs, familyPolicy(s), strings.Join(ports, ","), s.Spec.HealthCheckNodePort)
}

// TestServiceAllocation creates a service, replaces it, and checks the values of each, the allocations, and the
// allocations after a failed write.
func TestServiceAllocation(t *testing.T) {
	dual := []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	tests := []struct {
		name             string
		families         []corev1.IPFamily
		create, update   string
		created, updated string
		taken            []string // after the update
		refused          []string // causes, in place of updated
	}{
		{
			name: "to node ports and back", create: `{ports: [{port: 80}]}`, update: `{type: NodePort, ports: [{port: 80, name: a}, {port: 80, protocol: UDP, name: b}]}`,
			created: "10.0.0.1 [10.0.0.1] SingleStack 0 0", updated: "10.0.0.1 [10.0.0.1] SingleStack 30002,30003 0", taken: []string{"10.0.0.1", "30002", "30003"},
		},
		{
			name: "one number, one node port", create: `{type: NodePort, ports: [{port: 80, name: a}, {port: 80, protocol: UDP, name: b}]}`, update: `{ports: [{port: 80, name: a}]}`,
			created: "10.0.0.1 [10.0.0.1] SingleStack 30002,30002 0", updated: "10.0.0.1 [10.0.0.1] SingleStack 0 0", taken: []string{"10.0.0.1"},
		},
		{
			name: "the manifest again", create: `{type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80}]}`, update: `{type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80}]}`,
			created: "10.0.0.1 [10.0.0.1] SingleStack 30002 30003", updated: "10.0.0.1 [10.0.0.1] SingleStack 30002 30003", taken: []string{"10.0.0.1", "30002", "30003"},
		},
		{
			name: "no longer local", create: `{type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80}]}`, update: `{type: LoadBalancer, ports: [{port: 80}]}`,
			created: "10.0.0.1 [10.0.0.1] SingleStack 30002 30003", updated: "10.0.0.1 [10.0.0.1] SingleStack 30002 0", taken: []string{"10.0.0.1", "30002"},
		},
		{
			name: "to a name", create: `{ports: [{port: 80}]}`, update: `{type: ExternalName, externalName: example.com}`,
			created: "10.0.0.1 [10.0.0.1] SingleStack 0 0", updated: " []   0", taken: nil,
		},
		{
			name: "from a name", create: `{type: ExternalName, externalName: example.com}`, update: `{ports: [{port: 80}]}`,
			created: " []   0", updated: "10.0.0.1 [10.0.0.1] SingleStack 0 0", taken: []string{"10.0.0.1"},
		},
		{
			name: "headless", create: `{clusterIP: None}`, update: `{clusterIP: None, ports: [{port: 1}]}`,
			created: "None [None] RequireDualStack  0", updated: "None [None] RequireDualStack 0 0", taken: nil,
		},
		{
			name: "a second family", families: dual, create: `{ports: [{port: 80}]}`, update: `{ipFamilyPolicy: PreferDualStack, ports: [{port: 80}]}`,
			created: "10.0.0.1 [10.0.0.1] SingleStack 0 0", updated: "10.0.0.1 [10.0.0.1 fd00::2] PreferDualStack 0 0", taken: []string{"10.0.0.1", "fd00::2"},
		},
		{
			name: "one family less", families: dual, create: `{ipFamilyPolicy: RequireDualStack, ports: [{port: 80}]}`,
			update:  `{ipFamilyPolicy: SingleStack, ports: [{port: 80}]}`,
			created: "10.0.0.1 [10.0.0.1 fd00::2] RequireDualStack 0 0", updated: "10.0.0.1 [10.0.0.1] SingleStack 0 0", taken: []string{"10.0.0.1"},
		},
		{
			name: "another address", create: `{ports: [{port: 80}]}`, update: `{clusterIP: 10.0.0.9, ports: [{port: 80}]}`,
			created: "10.0.0.1 [10.0.0.1] SingleStack 0 0", refused: []string{"spec.clusterIPs[0] Invalid"}, taken: []string{"10.0.0.1"},
		},
		{
			name: "a node port that is taken", create: `{ports: [{port: 80}]}`, update: `{type: NodePort, ports: [{port: 80, nodePort: 31000}]}`,
			created: "10.0.0.1 [10.0.0.1] SingleStack 0 0", refused: []string{"spec.ports[0].nodePort Invalid"}, taken: []string{"10.0.0.1"},
		},
		{
			name: "two families where there is one", create: `{ports: [{port: 80}]}`, update: `{ipFamilyPolicy: RequireDualStack, ports: [{port: 80}]}`,
			created: "10.0.0.1 [10.0.0.1] SingleStack 0 0", refused: []string{"spec.ipFamilyPolicy Invalid"}, taken: []string{"10.0.0.1"},
		},
	}
	ctx := context.Background()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, ranges, _ := newDeps(tt.families...)
			r := resourceOf(t, d, "services")
			const meta = `metadata: {name: a, namespace: b, resourceVersion: "1"}`
			s := parse[*corev1.Service](t, r, `{`+meta+`, spec: `+tt.create+`}`)
			end, err := r.Rules.BeginCreate(ctx, s, false)
			if err != nil {
				t.Fatal(err)
			}
			r.Rules.PrepareCreate(ctx, s)
			if errs := r.Rules.Validate(ctx, s); len(errs) > 0 {
				t.Fatal(errs)
			}
			end(true)
			if got := given(s); got != tt.created {
				t.Errorf("created %q, want %q", got, tt.created)
			}
			before := slices.Sorted(maps.Keys(ranges.taken))
			ranges.taken["31000"] = true

			update := func(stored bool) (*corev1.Service, []string) {
				u := parse[*corev1.Service](t, r, `{`+meta+`, spec: `+tt.update+`}`)
				end, err := r.Rules.BeginUpdate(ctx, u, s, false)
				if err != nil {
					return u, causes(err)
				}
				r.Rules.PrepareUpdate(ctx, u, s)
				errs := r.Rules.ValidateUpdate(ctx, u, s)
				end(stored && len(errs) == 0)
				return u, faults(errs)
			}
			next := ranges.next
			if _, refused := update(false); len(refused) != len(tt.refused) {
				t.Errorf("refused for %q, want %q", refused, tt.refused)
			}
			delete(ranges.taken, "31000")
			if got := slices.Sorted(maps.Keys(ranges.taken)); !slices.Equal(got, before) {
				t.Errorf("after a write that was not stored, taken is %q, was %q", got, before)
			}
			ranges.next, ranges.taken["31000"] = next, true
			u, refused := update(true)
			delete(ranges.taken, "31000")
			if len(tt.refused) > 0 {
				if !slices.Equal(refused, tt.refused) {
					t.Errorf("refused for %q, want %q", refused, tt.refused)
				}
			} else if got := given(u); got != tt.updated {
				t.Errorf("updated %q, want %q", got, tt.updated)
			}
			if got := slices.Sorted(maps.Keys(ranges.taken)); !slices.Equal(got, tt.taken) {
				t.Errorf("taken %q, want %q", got, tt.taken)
			}
			if len(tt.refused) > 0 {
				u = s
			}
			r.Rules.Deleted(ctx, u, false)
			if len(ranges.taken) > 0 {
				t.Errorf("after the deletion, %v is taken", ranges.taken)
			}
		})
	}
}

func TestValidateService(t *testing.T) {
	tests := []struct {
		spec string
		want []string
	}{
		{`{ports: [{port: 80}]}`, nil},
		{`{}`, []string{"spec.ports Required"}},
		{`{clusterIP: None}`, nil},
		{`{type: NodePort, clusterIP: None, ports: [{port: 80}]}`, []string{"spec.clusterIPs[0] Invalid"}},
		{`{type: ExternalName, externalName: a.b, clusterIP: 1.2.3.4}`, []string{"spec.clusterIPs Forbidden"}},
		{`{type: ExternalName}`, []string{"spec.externalName Required"}},
		{`{ports: [{port: 80}, {port: 80}]}`, []string{"spec.ports[0].name Required", "spec.ports[1] Duplicate", "spec.ports[1].name Required"}},
		{`{ports: [{port: 80, nodePort: 30000}]}`, []string{"spec.ports[0].nodePort Forbidden"}},
		{`{ports: [{port: 80}], externalTrafficPolicy: Local}`, []string{"spec.externalTrafficPolicy Invalid"}},
		{`{ports: [{port: 80}], externalIPs: [127.0.0.1, x]}`, []string{"spec.externalIPs[0] Invalid", "spec.externalIPs[1] Invalid"}},
		{`{ports: [{port: 80}], loadBalancerSourceRanges: [1.2.3.4]}`,
			[]string{"spec.LoadBalancerSourceRanges Forbidden", "spec.LoadBalancerSourceRanges[0] Invalid"}},
		{`{ports: [{port: 80}], sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 0}}}`,
			[]string{"spec.sessionAffinityConfig.clientIP.timeoutSeconds Invalid"}},
		{`{ports: [{port: 80}], trafficDistribution: Far}`, []string{"spec.trafficDistribution NotSupported"}},
		{`{ports: [{port: 80}], loadBalancerClass: a/b}`, []string{"spec.loadBalancerClass Forbidden"}},
		{`{ports: [{port: 80}], clusterIP: 1.2.3.4, ipFamilies: [IPv6]}`, []string{"spec.clusterIPs[0] Invalid"}},
		{`{ports: [{port: 80}], clusterIP: 1.2.3.4, clusterIPs: [1.2.3.5]}`, []string{"spec.clusterIPs Invalid"}},
	}
	d, _, _ := newDeps()
	r := resourceOf(t, d, "services")
	for _, tt := range tests {
		s := parse[*corev1.Service](t, r, `{metadata: {name: a, namespace: b}, spec: `+tt.spec+`}`)
		alignAddresses(s, nil)
		if got := faults(d.validateServiceCreate(s)); !slices.Equal(got, append([]string{}, tt.want...)) {
			t.Errorf("%s: got %q, want %q", tt.spec, got, tt.want)
		}
	}
}

func TestLoadBalancerStatus(t *testing.T) {
	d, _, _ := newDeps()
	r := resourceOf(t, d, "services")
	old := &corev1.Service{}
	s := parse[*corev1.Service](t, r, `{spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 1.2.3.4}, {hostname: 1.2.3.4}, {ipMode: VIP}, {ip: 1.2.3.04, ipMode: X}]}}}`)
	want := []string{
		"status.loadBalancer.ingress[1].hostname Invalid", "status.loadBalancer.ingress[2].ipMode Forbidden",
		"status.loadBalancer.ingress[3].ip Invalid", "status.loadBalancer.ingress[3].ipMode NotSupported",
	}
	if got := faults(loadBalancerStatus(s, old, false)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	old.Status.LoadBalancer.Ingress = s.Status.LoadBalancer.Ingress
	if got := loadBalancerStatus(s, old, false); slices.ContainsFunc(got, func(e *field.Error) bool { return strings.HasSuffix(e.Field, ".ip") }) {
		t.Errorf("a stored address is refused: %v", got)
	}
}
