package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// Fields of the pod that a container can get as environment variables and files.
var (
	envFields = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	fileFields = []string{
		"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
	}
	// otherFields are selectable, but not available to containers.
	otherFields        = []string{"spec.restartPolicy", "spec.schedulerName", "status.phase"}
	containerResources = []string{
		"limits.cpu", "limits.ephemeral-storage", "limits.memory",
		"requests.cpu", "requests.ephemeral-storage", "requests.memory",
	}
)

func env(vars []corev1.EnvVar, e rules.Errors) {
	for i := range vars {
		ev := &vars[i]
		if ev.Name == "" {
			e.Item(i).Field("name").Required("")
		} else if m := validation.IsRelaxedEnvVarName(ev.Name); len(m) > 0 {
			e.Item(i).Field("name").Messages(ev.Name, m)
		}
		if ev.ValueFrom != nil {
			envSource(ev, e.Item(i).Field("valueFrom"))
		}
	}
}

func envSource(ev *corev1.EnvVar, e rules.Errors) {
	from, n := ev.ValueFrom, 0
	if from.FieldRef != nil {
		n++
		fieldRef(from.FieldRef, envFields, e.Field("fieldRef"))
	}
	if from.ResourceFieldRef != nil {
		n++
		resourceFieldRef(from.ResourceFieldRef, false, e.Field("resourceFieldRef"))
	}
	if r := from.ConfigMapKeyRef; r != nil {
		n++
		keyRef(r.Name, r.Key, e.Field("configMapKeyRef"))
	}
	if r := from.SecretKeyRef; r != nil {
		n++
		keyRef(r.Name, r.Key, e.Field("secretKeyRef"))
	}
	if from.FileKeyRef != nil {
		n++
		fileKeyRef(from.FileKeyRef, e.Field("fileKeyRef"))
	}
	switch {
	case n == 0:
		e.Invalid("", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")
	case ev.Value != "":
		e.Invalid("", "may not be specified when `value` is not empty")
	case n > 1:
		e.Invalid("", "may not have more than one field specified at a time")
	}
}

func keyRef(name, key string, e rules.Errors) {
	e.Name("name", name, rules.Subdomain)
	if e.Present("key", key) {
		e.DataKey("key", key)
	}
}

func fileKeyRef(r *corev1.FileKeySelector, e rules.Errors) {
	if e.Present("key", r.Key) {
		if m := validation.IsRelaxedEnvVarName(r.Key); len(m) > 0 {
			e.Field("key").Messages(r.Key, m)
		}
	}
	if e.Present("volumeName", r.VolumeName) {
		e.DNSLabel("volumeName", r.VolumeName)
	}
	if e.Present("path", r.Path) {
		e.NoBacksteps("path", r.Path)
	}
}

// fileEnv checks that environment files are in volumes of this pod that its own containers write.
func (v *validator) fileEnv(e rules.Errors) {
	for path, c := range ContainersAt(v.spec, e.Path()) {
		for i := range c.Env {
			from := c.Env[i].ValueFrom
			if from == nil || from.FileKeyRef == nil {
				continue
			}
			name := from.FileKeyRef.VolumeName
			at := e.Elsewhere(path.Child("env").Index(i).Child("valueFrom", "fileKeyRef", "volumeName"))
			n := slices.IndexFunc(v.spec.Volumes, func(vol corev1.Volume) bool { return vol.Name == name })
			if n < 0 {
				at.NotFound(name)
			} else if v.spec.Volumes[n].EmptyDir == nil {
				at.Invalid(name, "referenced volume must be of type emptyDir")
			}
		}
	}
}

func envFrom(sources []corev1.EnvFromSource, e rules.Errors) {
	for i := range sources {
		s, item := &sources[i], e.Item(i)
		if s.Prefix != "" {
			if m := validation.IsRelaxedEnvVarName(s.Prefix); len(m) > 0 {
				item.Field("prefix").Messages(s.Prefix, m)
			}
		}
		if r := s.ConfigMapRef; r != nil {
			prefixRef(r.Name, item.Field("configMapRef"))
		}
		if r := s.SecretRef; r != nil {
			prefixRef(r.Name, item.Field("secretRef"))
		}
		switch {
		case s.ConfigMapRef == nil && s.SecretRef == nil:
			e.Invalid("", "must specify one of: `configMapRef` or `secretRef`")
		case s.ConfigMapRef != nil && s.SecretRef != nil:
			e.Invalid("", "may not have more than one field specified at a time")
		}
	}
}

func prefixRef(name string, e rules.Errors) {
	if e.Present("name", name) {
		if m := rules.Subdomain(name, true); len(m) > 0 {
			e.Field("name").Messages(name, m)
		}
	}
}

// fieldRef validates a reference to a field of the pod; single labels and annotations are allowed.
func fieldRef(r *corev1.ObjectFieldSelector, allowed []string, e rules.Errors) {
	if !e.Present("apiVersion", r.APIVersion) || !e.Present("fieldPath", r.FieldPath) {
		return
	}
	name, key, subscripted := splitSubscript(r.FieldPath)
	switch {
	case r.APIVersion != "v1":
		e.Field("fieldPath").Invalid(r.FieldPath, "error converting fieldPath: unsupported pod version: "+r.APIVersion)
	case subscripted && name == "metadata.annotations":
		e.QualifiedName(strings.ToLower(key))
	case subscripted && name == "metadata.labels":
		e.QualifiedName(key)
	case subscripted:
		e.Field("fieldPath").Invalid(r.FieldPath, "does not support subscript")
	default:
		if name == "spec.host" { // its name in the first API versions
			name = "spec.nodeName"
		}
		if !slices.Contains(envFields, name) && !slices.Contains(fileFields, name) && !slices.Contains(otherFields, name) {
			e.Field("fieldPath").Invalid(r.FieldPath, "error converting fieldPath: field label not supported: "+r.FieldPath)
		} else {
			rules.OneOf(e, "fieldPath", name, allowed)
		}
	}
}

// splitSubscript splits "metadata.labels['key']".
func splitSubscript(path string) (name, key string, ok bool) {
	s, ok := strings.CutSuffix(path, "']")
	if !ok {
		return path, "", false
	}
	name, key, ok = strings.Cut(s, "['")
	if !ok || name == "" {
		return path, "", false
	}
	return name, key, true
}

func resourceFieldRef(r *corev1.ResourceFieldSelector, inVolume bool, e rules.Errors) {
	hugePages := strings.HasPrefix(r.Resource, "limits.hugepages-") || strings.HasPrefix(r.Resource, "requests.hugepages-")
	switch {
	case inVolume && r.ContainerName == "":
		e.Field("containerName").Required("")
	case r.Resource == "":
		e.Field("resource").Required("")
	case !hugePages && !slices.Contains(containerResources, r.Resource):
		e.AddError(field.NotSupported(e.Path().Child("resource"), r.Resource, containerResources))
	}
	if r.Divisor.IsZero() {
		return
	}
	divisors := "1 1k 1M 1G 1T 1P 1E 1Ki 1Mi 1Gi 1Ti 1Pi 1Ei"
	switch {
	case strings.HasSuffix(r.Resource, ".cpu") && slices.Contains(containerResources, r.Resource):
		divisors = "1m 1"
	case !hugePages && !slices.Contains(containerResources, r.Resource):
		return
	}
	if !slices.Contains(strings.Fields(divisors), r.Divisor.String()) {
		e.Field("divisor").Invalid(r.Divisor.String(), "must be one of "+divisors)
	}
}
