package audit

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Policy decides how much of each request is recorded. The first matching rule decides; a request that matches no rule
// is not audited.
type Policy struct {
	rules []rule
}

// rule is a policy rule combined with the settings of the whole policy.
type rule struct {
	auditv1.PolicyRule
	decision
}

// decision is the result of matching a request against a policy.
type decision struct {
	level             request.AuditLevel
	omit              []auditv1.Stage
	omitManagedFields bool
}

// LoadPolicy reads a policy file.
func LoadPolicy(path string, log *slog.Logger) (*Policy, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p, err := ParsePolicy(data, log)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// MetadataPolicy records of each request who asked for what and how it ended, once it has ended.
func MetadataPolicy() *Policy {
	return compile(&auditv1.Policy{
		OmitStages: []auditv1.Stage{auditv1.StageRequestReceived},
		Rules:      []auditv1.PolicyRule{{Level: auditv1.LevelMetadata}},
	})
}

// ParsePolicy parses a policy in YAML or JSON. It logs and ignores unknown fields, as kube-apiserver does.
func ParsePolicy(data []byte, log *slog.Logger) (*Policy, error) {
	doc, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		log.Warn("the audit policy has errors", "err", err)
		if doc, err = yaml.YAMLToJSON(data); err != nil {
			return nil, fmt.Errorf("failed decoding: %w", err)
		}
	}
	var p auditv1.Policy
	strict, err := kjson.UnmarshalStrict(doc, &p)
	if err != nil {
		return nil, fmt.Errorf("failed decoding: %w", err)
	}
	for _, err := range strict {
		log.Warn("the audit policy has errors", "err", err)
	}
	if want := auditv1.SchemeGroupVersion.WithKind("Policy"); schema.FromAPIVersionAndKind(p.APIVersion, p.Kind) != want {
		return nil, fmt.Errorf("unknown group version field %s in policy", schema.FromAPIVersionAndKind(p.APIVersion, p.Kind))
	}
	if errs := validatePolicy(&p); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	if len(p.Rules) == 0 {
		return nil, fmt.Errorf("loaded illegal policy with 0 rules")
	}
	return compile(&p), nil
}

func compile(p *auditv1.Policy) *Policy {
	out := &Policy{}
	for _, r := range p.Rules {
		d := decision{level: levelOf(r.Level), omit: append(slices.Clone(p.OmitStages), r.OmitStages...), omitManagedFields: p.OmitManagedFields}
		if r.OmitManagedFields != nil {
			d.omitManagedFields = *r.OmitManagedFields
		}
		out.rules = append(out.rules, rule{r, d})
	}
	return out
}

func levelOf(l auditv1.Level) request.AuditLevel {
	switch l {
	case auditv1.LevelMetadata:
		return request.AuditMetadata
	case auditv1.LevelRequest:
		return request.AuditRequest
	case auditv1.LevelRequestResponse:
		return request.AuditRequestResponse
	}
	return request.AuditNone
}

// decide returns the policy's decision on a request; u is nil if the user is unknown.
func (p *Policy) decide(u user.Info, i *request.Info) *decision {
	for n := range p.rules {
		if r := &p.rules[n]; r.matches(u, i) {
			return &r.decision
		}
	}
	return &decision{level: request.AuditNone}
}

func (r *rule) matches(u user.Info, i *request.Info) bool {
	switch {
	case len(r.Users) > 0 && (u == nil || !slices.Contains(r.Users, u.GetName())):
		return false
	case len(r.UserGroups) > 0 && (u == nil || !slices.ContainsFunc(u.GetGroups(), func(g string) bool { return slices.Contains(r.UserGroups, g) })):
		return false
	case len(r.Verbs) > 0 && !slices.Contains(r.Verbs, i.Verb):
		return false
	case len(r.Namespaces) > 0 || len(r.Resources) > 0:
		return r.matchesResource(i)
	case len(r.NonResourceURLs) > 0:
		return !i.IsResource && slices.ContainsFunc(r.NonResourceURLs, func(pattern string) bool { return matchesPath(pattern, i.Path) })
	}
	return true
}

func matchesPath(pattern, path string) bool {
	if pattern == "*" || pattern == path {
		return true
	}
	return strings.HasSuffix(pattern, "*") && strings.HasPrefix(path, strings.TrimRight(pattern, "*"))
}

func (r *rule) matchesResource(i *request.Info) bool {
	if !i.IsResource || len(r.Namespaces) > 0 && !slices.Contains(r.Namespaces, i.Namespace) {
		return false
	}
	if len(r.Resources) == 0 {
		return true
	}
	for n := range r.Resources {
		gr := &r.Resources[n]
		if gr.Group != "*" && gr.Group != i.Group {
			continue
		}
		if len(gr.Resources) == 0 {
			return true
		}
		if len(gr.ResourceNames) > 0 && !slices.Contains(gr.ResourceNames, i.Name) {
			continue
		}
		if slices.ContainsFunc(gr.Resources, func(res string) bool { return matchesName(res, i.Resource, i.Subresource) }) {
			return true
		}
	}
	return false
}

// matchesName matches a resource against one of a rule: pods, pods/log, pods/*, */scale or *. "pods" matches no
// subresource.
func matchesName(pattern, resource, subresource string) bool {
	if pattern == "*" {
		return true
	}
	res, sub, has := strings.Cut(pattern, "/")
	switch {
	case !has:
		return pattern == resource && subresource == ""
	case sub == "*" && res == resource:
		return true
	case res == "*":
		return subresource != "" && sub == subresource
	}
	return res == resource && sub == subresource
}

func validatePolicy(p *auditv1.Policy) field.ErrorList {
	errs := validateStages(p.OmitStages, field.NewPath("omitStages"))
	for n, r := range p.Rules {
		errs = append(errs, validateRule(&r, field.NewPath("rules").Index(n))...)
	}
	return errs
}

func validateRule(r *auditv1.PolicyRule, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	levels := []auditv1.Level{auditv1.LevelNone, auditv1.LevelMetadata, auditv1.LevelRequest, auditv1.LevelRequestResponse}
	if r.Level == "" {
		errs = append(errs, field.Required(path.Child("level"), ""))
	} else if !slices.Contains(levels, r.Level) {
		errs = append(errs, field.NotSupported(path.Child("level"), r.Level, levels))
	}
	for n, url := range r.NonResourceURLs {
		at := path.Child("nonResourceURLs").Index(n)
		if url == "*" {
			continue
		}
		if !strings.HasPrefix(url, "/") {
			errs = append(errs, field.Invalid(at, url, "non-resource URL rules must begin with a '/' character"))
		}
		if url != "" && strings.Contains(url[:len(url)-1], "*") {
			errs = append(errs, field.Invalid(at, url, "non-resource URL wildcards '*' must be the final character of the rule"))
		}
	}
	for _, gr := range r.Resources {
		at := path.Child("resources")
		if gr.Group != "" && gr.Group != "*" {
			if msgs := validation.NameIsDNSSubdomain(gr.Group, false); len(msgs) > 0 {
				errs = append(errs, field.Invalid(at.Child("group"), gr.Group, strings.Join(msgs, ",")))
			}
		}
		if len(gr.ResourceNames) > 0 && len(gr.Resources) == 0 {
			errs = append(errs, field.Invalid(at.Child("resourceNames"), gr.ResourceNames, "using resourceNames requires at least one resource"))
		}
	}
	errs = append(errs, validateStages(r.OmitStages, path.Child("omitStages"))...)
	if len(r.NonResourceURLs) > 0 && (len(r.Resources) > 0 || len(r.Namespaces) > 0) {
		errs = append(errs, field.Invalid(path.Child("nonResourceURLs"), r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs"))
	}
	return errs
}

func validateStages(stages []auditv1.Stage, path *field.Path) field.ErrorList {
	all := []string{string(auditv1.StageRequestReceived), string(auditv1.StageResponseStarted), string(auditv1.StageResponseComplete), string(auditv1.StagePanic)}
	var errs field.ErrorList
	for n, s := range stages {
		if !slices.Contains(all, string(s)) {
			errs = append(errs, field.Invalid(path.Index(n), string(s), "allowed stages are "+strings.Join(all, ",")))
		}
	}
	return errs
}
