package flowcontrol

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/request"
)

// flow is a FlowSchema in use, with the priority level of its requests and the settings they need from it. It is
// immutable.
type flow struct {
	*flowcontrolv1.FlowSchema
	level    *level
	levelUID types.UID
	exempt   bool
	maxSeats int // of one request; 0: no bound
	metrics  func() *flowMetrics
}

// order sorts schemas by matching precedence.
func order(schemas []*flowcontrolv1.FlowSchema) {
	slices.SortFunc(schemas, func(a, b *flowcontrolv1.FlowSchema) int {
		if d := int(a.Spec.MatchingPrecedence) - int(b.Spec.MatchingPrecedence); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
}

func (f *flow) matches(u user.Info, i *request.Info) bool {
	for n := range f.Spec.Rules {
		r := &f.Spec.Rules[n]
		if !slices.ContainsFunc(r.Subjects, func(s flowcontrolv1.Subject) bool { return matchesSubject(&s, u) }) {
			continue
		}
		if i.IsResource && slices.ContainsFunc(r.ResourceRules, func(rule flowcontrolv1.ResourcePolicyRule) bool { return matchesResource(&rule, i) }) {
			return true
		}
		if !i.IsResource && slices.ContainsFunc(r.NonResourceRules, func(rule flowcontrolv1.NonResourcePolicyRule) bool {
			return matches(rule.Verbs, i.Verb) && slices.ContainsFunc(rule.NonResourceURLs, func(url string) bool { return matchesURL(url, i.Path) })
		}) {
			return true
		}
	}
	return false
}

func matchesSubject(s *flowcontrolv1.Subject, u user.Info) bool {
	switch s.Kind {
	case flowcontrolv1.SubjectKindUser:
		return s.User != nil && (s.User.Name == flowcontrolv1.NameAll || s.User.Name == u.GetName())
	case flowcontrolv1.SubjectKindGroup:
		return s.Group != nil && (s.Group.Name == flowcontrolv1.NameAll || slices.Contains(u.GetGroups(), s.Group.Name))
	case flowcontrolv1.SubjectKindServiceAccount:
		if s.ServiceAccount == nil {
			return false
		}
		rest, ok := strings.CutPrefix(u.GetName(), "system:serviceaccount:")
		namespace, name, both := strings.Cut(rest, ":")
		return ok && both && namespace == s.ServiceAccount.Namespace && (s.ServiceAccount.Name == flowcontrolv1.NameAll || name == s.ServiceAccount.Name)
	}
	return false
}

func matchesResource(r *flowcontrolv1.ResourcePolicyRule, i *request.Info) bool {
	if !matches(r.Verbs, i.Verb) || !matches(r.APIGroups, i.Group) {
		return false
	}
	if i.Subresource == "" && !matches(r.Resources, i.Resource) || i.Subresource != "" && !matches(r.Resources, i.Resource+"/"+i.Subresource) {
		return false
	}
	if i.Namespace == "" {
		return r.ClusterScope
	}
	return matches(r.Namespaces, i.Namespace)
}

// matches reports whether list contains value or is the wildcard.
func matches(list []string, value string) bool {
	return len(list) == 1 && list[0] == "*" || slices.Contains(list, value)
}

// matchesURL reports whether a path matches a rule's pattern. A pattern that ends in * also matches the paths below it.
func matchesURL(pattern, path string) bool {
	if pattern == "*" || pattern == path {
		return true
	}
	prefix := strings.TrimSuffix(pattern, "*")
	if !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	return strings.HasPrefix(path, prefix)
}

// distinguish returns the flow distinguisher of a request within its schema.
func (f *flow) distinguish(u user.Info, i *request.Info) string {
	if m := f.Spec.DistinguisherMethod; m != nil {
		switch m.Type {
		case flowcontrolv1.FlowDistinguisherMethodByUserType:
			return u.GetName()
		case flowcontrolv1.FlowDistinguisherMethodByNamespaceType:
			return i.Namespace
		}
	}
	return ""
}

// hash returns the hash that selects a flow's queues. It is cryptographic, so that tenants cannot choose names that
// collide with the queues of another tenant.
func (f *flow) hash(which string) uint64 {
	var room [128]byte
	text := append(append(append(room[:0], f.Name...), 0), which...)
	sum := sha256.Sum256(text)
	return binary.LittleEndian.Uint64(sum[:8])
}
