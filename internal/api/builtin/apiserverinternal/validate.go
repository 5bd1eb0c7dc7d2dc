package apiserverinternal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	internalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func validate(_ context.Context, v *internalv1alpha1.StorageVersion) field.ErrorList {
	e := rules.At(field.NewPath("status"))
	e.Add(rules.ObjectMeta(&v.ObjectMeta, false, name))
	status(&v.Status, e)
	return e.List()
}

func validateStatusUpdate(_ context.Context, v, _ *internalv1alpha1.StorageVersion) field.ErrorList {
	e := rules.At(field.NewPath("status"))
	status(&v.Status, e)
	return e.List()
}

// name is GROUP.RESOURCE.
func name(name string, _ bool) (out []string) {
	dot := strings.LastIndex(name, ".")
	if dot < 0 {
		return []string{"name must be in the form of <group>.<resource>"}
	}
	out = append(out, prefixed("the group segment ", validation.IsDNS1123Subdomain(name[:dot]))...)
	return append(out, prefixed("the resource segment ", validation.IsDNS1035Label(name[dot+1:]))...)
}

func status(s *internalv1alpha1.StorageVersionStatus, e rules.Errors) {
	servers := map[string]bool{}
	for i := range s.StorageVersions {
		v, at := &s.StorageVersions[i], e.Field("storageVersions").Item(i)
		if servers[v.APIServerID] {
			at.Field("apiServerID").Duplicate(v.APIServerID)
		}
		servers[v.APIServerID] = true
		server(v, at)
	}
	common(s, e.Field("commonEncodingVersion"))
	conditions(s.Conditions, e)
}

// server checks that one server can read what it stores and serves.
func server(v *internalv1alpha1.ServerStorageVersion, e rules.Errors) {
	e.Field("apiServerID").Messages(v.APIServerID, rules.Subdomain(v.APIServerID, false))
	apiVersion(v.EncodingVersion, e.Field("encodingVersion"))
	for i, d := range v.DecodableVersions {
		apiVersion(d, e.Field("decodableVersions").Item(i))
	}
	if !slices.Contains(v.DecodableVersions, v.EncodingVersion) {
		e.Field("decodableVersions").Invalid(v.DecodableVersions, "decodableVersions must include encodingVersion "+v.EncodingVersion)
	}
	for i, served := range v.ServedVersions {
		at := e.Field("servedVersions").Item(i)
		apiVersion(served, at)
		if !slices.Contains(v.DecodableVersions, served) {
			at.Invalid(served, fmt.Sprintf("individual served version : %s must be included in decodableVersions : %s", served, v.DecodableVersions))
		}
	}
}

// common checks that the common version is the one in which all servers store, and is not there if they store in several.
func common(s *internalv1alpha1.StorageVersionStatus, e rules.Errors) {
	switch actual := commonVersion(s.StorageVersions); {
	case actual == nil && s.CommonEncodingVersion != nil:
		e.Invalid(*s.CommonEncodingVersion, "should be nil if servers do not agree on the same encoding version, or if there is no server reporting the supported versions yet")
	case actual != nil && s.CommonEncodingVersion == nil:
		e.Invalid(s.CommonEncodingVersion, "the common encoding version is "+*actual)
	case actual != nil && *actual != *s.CommonEncodingVersion:
		e.Invalid(*s.CommonEncodingVersion, "the actual common encoding version is "+*actual)
	}
}

// Agree puts in what follows from what all servers have told: the version in which they store, and whether there is one.
func Agree(obj *internalv1alpha1.StorageVersion, now time.Time) {
	s := &obj.Status
	before := s.CommonEncodingVersion
	s.CommonEncodingVersion = commonVersion(s.StorageVersions)
	c := internalv1alpha1.StorageVersionCondition{
		Type: internalv1alpha1.AllEncodingVersionsEqual, Status: internalv1alpha1.ConditionFalse, ObservedGeneration: obj.Generation,
		LastTransitionTime: metav1.NewTime(now), Reason: "CommonEncodingVersionUnset", Message: "Common encoding version unset",
	}
	if s.CommonEncodingVersion != nil {
		c.Status, c.Reason, c.Message = internalv1alpha1.ConditionTrue, "CommonEncodingVersionSet", "Common encoding version set"
	}
	n := slices.IndexFunc(s.Conditions, func(other internalv1alpha1.StorageVersionCondition) bool { return other.Type == c.Type })
	if n < 0 {
		s.Conditions = append(s.Conditions, c)
		return
	}
	another := before != nil && s.CommonEncodingVersion != nil && *before != *s.CommonEncodingVersion
	if s.Conditions[n].Status == c.Status && !another {
		c.LastTransitionTime = s.Conditions[n].LastTransitionTime
	}
	s.Conditions[n] = c
}

// commonVersion returns the version in which all servers store; nil: they store in several, or there is none.
func commonVersion(servers []internalv1alpha1.ServerStorageVersion) *string {
	if len(servers) == 0 {
		return nil
	}
	first := servers[0].EncodingVersion
	if slices.ContainsFunc(servers, func(s internalv1alpha1.ServerStorageVersion) bool { return s.EncodingVersion != first }) {
		return nil
	}
	return &first
}

// conditions are reported without the name of their list, as in kube-apiserver.
func conditions(all []internalv1alpha1.StorageVersionCondition, e rules.Errors) {
	seen := map[internalv1alpha1.StorageVersionConditionType]int{}
	for i := range all {
		c, at := &all[i], e.Item(i)
		if first, ok := seen[c.Type]; ok {
			at.Field("type").Invalid(string(c.Type), fmt.Sprintf("the type of the condition is not unique, it also appears in conditions[%d]", first))
		}
		seen[c.Type] = i
		at.Field("type").QualifiedName(string(c.Type))
		at.Field("status").QualifiedName(string(c.Status))
		if c.Reason == "" {
			at.Field("reason").Required("")
		}
		if c.Message == "" {
			at.Field("message").Required("")
		}
	}
}

// label tells what a version is.
const (
	labelFormat = "[a-z]([-a-z0-9]*[a-z0-9])?"
	label       = "a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character"
)

// apiVersion checks [GROUP/]VERSION, and reports all that is wrong in one error.
func apiVersion(value string, e rules.Errors) {
	var wrong []string
	group, version, grouped := strings.Cut(value, "/")
	switch {
	case !grouped:
		version = group
	case strings.Contains(version, "/"):
		e.Invalid(value, "an apiVersion is "+validation.RegexError(label, labelFormat, "my-name", "abc-123")+
			" with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyVersion')")
		return
	case group == "":
		wrong = append(wrong, "group part: "+validation.EmptyError())
	default:
		wrong = append(wrong, prefixed("group part: ", validation.IsDNS1123Subdomain(group))...)
	}
	if version == "" {
		wrong = append(wrong, "version part: "+validation.EmptyError())
	} else {
		wrong = append(wrong, prefixed("version part: ", validation.IsDNS1035Label(version))...)
	}
	if len(wrong) > 0 {
		e.Invalid(value, strings.Join(wrong, ","))
	}
}

func prefixed(prefix string, messages []string) (out []string) {
	for _, m := range messages {
		out = append(out, prefix+m)
	}
	return out
}
