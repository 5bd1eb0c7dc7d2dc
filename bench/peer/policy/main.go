// Command policy prints the RBAC policy with which kube-apiserver begins: a role or binding a line, without the label and the annotation
// that all have. "gate" says when an object, or a rule of a role, is there: if all these feature gates are on, and those after "!" off.
// internal/access/authz/bootstrap embeds the output.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	_ "k8s.io/kubernetes/pkg/features" // registers the gates
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// object is a line of the output.
type object struct {
	Kind            string                  `json:"kind"`
	Metadata        metadata                `json:"metadata"`
	Rules           []rule                  `json:"rules,omitempty"`
	AggregationRule *rbacv1.AggregationRule `json:"aggregationRule,omitempty"`
	RoleRef         *rbacv1.RoleRef         `json:"roleRef,omitempty"`
	Subjects        []rbacv1.Subject        `json:"subjects,omitempty"`
	Gate            string                  `json:"gate,omitempty"`
}

type metadata struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

type rule struct {
	rbacv1.PolicyRule
	Gate string `json:"gate,omitempty"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "policy:", err)
		os.Exit(1)
	}
}

func run() error {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard) // what it says of each gate
	x := explorer{every: togglable(), conditions: map[string]*condition{}}
	if err := x.explore(nil); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for _, o := range x.all {
		o.Gate = x.conditions[o.key()].String()
		for i := range o.Rules {
			if gate := x.conditions[o.ruleKey(i)].String(); gate != o.Gate {
				o.Rules[i].Gate = gate
			}
		}
		if err := out.Encode(o); err != nil {
			return err
		}
	}
	return nil
}

// condition is when an object or a rule is there: with all gates of the one kind, and without those of the other.
type condition struct{ with, without []featuregate.Feature }

// String names the gates; "!" stands before those that must be off.
func (c *condition) String() string {
	var out []string
	for _, gate := range c.with {
		needed := slices.ContainsFunc(dependents(gate)[1:], func(d featuregate.Feature) bool { return slices.Contains(c.with, d) })
		if !needed {
			out = append(out, string(gate))
		}
	}
	for _, gate := range c.without {
		out = append(out, "!"+string(gate))
	}
	return strings.Join(out, ",")
}

// explorer collects all objects and rules that there are with any gates, and finds out when.
type explorer struct {
	every      []featuregate.Feature
	all        []object
	conditions map[string]*condition // by object, or object and rule
}

// explore looks at the policy without some gates, and at what another one changes in it.
func (x *explorer) explore(without []featuregate.Feature) error {
	off := closure(without)
	base, err := x.policy(off)
	if err != nil {
		return err
	}
	keys := index(base)
	for key := range keys {
		if x.conditions[key] == nil {
			x.conditions[key] = &condition{without: without}
		}
	}
	x.add(base)
	for _, gate := range x.every {
		if slices.Contains(off, gate) {
			continue
		}
		more := append(slices.Clone(without), gate)
		changed, err := x.policy(closure(more))
		if err != nil {
			return err
		}
		left, further := index(changed), false
		for key := range keys {
			if c := x.conditions[key]; !left[key] && slices.Equal(c.without, without) {
				c.with = append(c.with, gate)
			}
		}
		for key := range left {
			further = further || x.conditions[key] == nil
		}
		if further {
			if err := x.explore(more); err != nil {
				return err
			}
		}
	}
	return nil
}

// add puts in what is not there yet, at its place.
func (x *explorer) add(policy []object) {
	for _, o := range policy {
		n := slices.IndexFunc(x.all, func(have object) bool { return have.key() == o.key() })
		if n < 0 {
			x.all = append(x.all, o)
			continue
		}
		at, have := 0, &x.all[n]
		for i := range o.Rules {
			if j := slices.IndexFunc(have.Rules, func(r rule) bool { return reflect.DeepEqual(r, o.Rules[i]) }); j >= 0 {
				at = j + 1
				continue
			}
			have.Rules = slices.Insert(have.Rules, at, o.Rules[i])
			at++
		}
	}
	slices.SortStableFunc(x.all, compare)
}

// policy is what kube-apiserver makes without some gates.
func (x *explorer) policy(off []featuregate.Feature) ([]object, error) {
	values := map[string]bool{}
	for _, gate := range x.every {
		values[string(gate)] = !slices.Contains(off, gate)
	}
	gates := utilfeature.DefaultMutableFeatureGate
	if err := errors.Join(append(gates.Validate(), gates.SetFromMap(values))...); err != nil {
		return nil, err
	}
	return policy(), nil
}

// closure are gates and all that need one of them.
func closure(gates []featuregate.Feature) (out []featuregate.Feature) {
	for _, gate := range gates {
		out = append(out, dependents(gate)...)
	}
	return out
}

// togglable are the gates that can be on and off.
func togglable() (out []featuregate.Feature) {
	for name, specs := range utilfeature.DefaultMutableFeatureGate.GetAllVersioned() {
		if now := specs[len(specs)-1]; name != "AllAlpha" && name != "AllBeta" && !now.LockToDefault {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// dependents are a gate and all that need it.
func dependents(gate featuregate.Feature) []featuregate.Feature {
	out := []featuregate.Feature{gate}
	for name, needs := range utilfeature.DefaultMutableFeatureGate.Dependencies() {
		if slices.Contains(needs, gate) {
			out = append(out, dependents(name)...)
		}
	}
	return out
}

func (o *object) key() string { return o.Kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name }

func (o *object) ruleKey(i int) string {
	text, err := json.Marshal(o.Rules[i].PolicyRule)
	if err != nil {
		panic(err) // rules are strings
	}
	return o.key() + " " + string(text)
}

func index(all []object) map[string]bool {
	out := map[string]bool{}
	for _, o := range all {
		out[o.key()] = true
		for i := range o.Rules {
			out[o.ruleKey(i)] = true
		}
	}
	return out
}

// policy is what kube-apiserver makes with the gates as they are.
func policy() (out []object) {
	for _, r := range slices.Concat(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()) {
		out = append(out, object{Kind: "ClusterRole", Metadata: meta(r.ObjectMeta), Rules: rules(r.Rules), AggregationRule: r.AggregationRule})
	}
	for _, b := range slices.Concat(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()) {
		out = append(out, object{Kind: "ClusterRoleBinding", Metadata: meta(b.ObjectMeta), RoleRef: &b.RoleRef, Subjects: b.Subjects})
	}
	for _, roles := range bootstrappolicy.NamespaceRoles() {
		for _, r := range roles {
			out = append(out, object{Kind: "Role", Metadata: meta(r.ObjectMeta), Rules: rules(r.Rules)})
		}
	}
	for _, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for _, b := range bindings {
			out = append(out, object{Kind: "RoleBinding", Metadata: meta(b.ObjectMeta), RoleRef: &b.RoleRef, Subjects: b.Subjects})
		}
	}
	slices.SortFunc(out, compare)
	return out
}

var kinds = []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}

func compare(a, b object) int {
	if d := slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind); d != 0 {
		return d
	}
	return strings.Compare(a.Metadata.Name+" "+a.Metadata.Namespace, b.Metadata.Name+" "+b.Metadata.Namespace)
}

// meta leaves out what all objects of the policy have.
func meta(m metav1.ObjectMeta) metadata {
	labels := maps.Clone(m.Labels)
	delete(labels, "kubernetes.io/bootstrapping")
	if len(labels) == 0 {
		labels = nil
	}
	return metadata{m.Name, m.Namespace, labels}
}

func rules(all []rbacv1.PolicyRule) (out []rule) {
	for _, r := range all {
		out = append(out, rule{PolicyRule: r})
	}
	return out
}
