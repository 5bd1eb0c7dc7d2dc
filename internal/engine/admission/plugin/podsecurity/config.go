package podsecurity

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	machineryvalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/api"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// config is a PodSecurityConfiguration; its versions are all the same.
type config struct {
	metav1.TypeMeta `json:",inline"`
	Defaults        struct {
		Enforce        string `json:"enforce"`
		EnforceVersion string `json:"enforce-version"`
		Audit          string `json:"audit"`
		AuditVersion   string `json:"audit-version"`
		Warn           string `json:"warn"`
		WarnVersion    string `json:"warn-version"`
	} `json:"defaults"`
	Exemptions struct {
		Usernames      []string `json:"usernames"`
		Namespaces     []string `json:"namespaces"`
		RuntimeClasses []string `json:"runtimeClasses"`
	} `json:"exemptions"`

	// defaults is the policy of namespaces without labels.
	defaults api.Policy
}

func parse(data []byte) (c config, err error) {
	if len(data) > 0 {
		if err := yaml.UnmarshalStrict(data, &c); err != nil {
			return c, err
		}
		if group, _, _ := strings.Cut(c.APIVersion, "/"); c.Kind != "PodSecurityConfiguration" || group != "pod-security.admission.config.k8s.io" {
			return c, fmt.Errorf("no PodSecurityConfiguration but %s %s", c.APIVersion, c.Kind)
		}
	}
	d, at := &c.Defaults, field.NewPath("defaults")
	var errs field.ErrorList
	for _, m := range []struct {
		name           string
		level, version string
		into           *api.LevelVersion
	}{
		{"enforce", d.Enforce, d.EnforceVersion, &c.defaults.Enforce},
		{"audit", d.Audit, d.AuditVersion, &c.defaults.Audit},
		{"warn", d.Warn, d.WarnVersion, &c.defaults.Warn},
	} {
		if m.level == "" {
			m.level = string(api.LevelPrivileged)
		}
		if m.version == "" {
			m.version = api.VersionLatest
		}
		if m.into.Level, err = api.ParseLevel(m.level); err != nil {
			errs = append(errs, field.Invalid(at.Child(m.name), m.level, err.Error()))
		}
		if m.into.Version, err = api.ParseVersion(m.version); err != nil {
			errs = append(errs, field.Invalid(at.Child(m.name+"-version"), m.version, err.Error()))
		}
	}
	at = field.NewPath("exemptions")
	errs = append(errs, validateNames(at.Child("namespaces"), c.Exemptions.Namespaces, machineryvalidation.ValidateNamespaceName)...)
	errs = append(errs, validateNames(at.Child("runtimeClasses"), c.Exemptions.RuntimeClasses, machineryvalidation.NameIsDNSSubdomain)...)
	errs = append(errs, validateNames(at.Child("usernames"), c.Exemptions.Usernames, func(name string, _ bool) []string {
		if name == "" {
			return []string{"username must not be empty"}
		}
		return nil
	})...)
	return c, errs.ToAggregate()
}

func validateNames(at *field.Path, names []string, rule func(name string, prefix bool) []string) (errs field.ErrorList) {
	for i, name := range names {
		if msgs := rule(name, false); len(msgs) > 0 {
			errs = append(errs, field.Invalid(at.Index(i), name, strings.Join(msgs, ", ")))
		} else if slices.Contains(names[:i], name) {
			errs = append(errs, field.Duplicate(at.Index(i), name))
		}
	}
	return errs
}

// exempts says that the namespace or the user of a write is exempt.
func (c *config) exempts(a *admission.Attributes) bool {
	return slices.Contains(c.Exemptions.Namespaces, a.Namespace) ||
		a.User != nil && slices.Contains(c.Exemptions.Usernames, a.User.GetName())
}

func (c *config) exemptsClass(spec *corev1.PodSpec) bool {
	return spec.RuntimeClassName != nil && slices.Contains(c.Exemptions.RuntimeClasses, *spec.RuntimeClassName)
}
