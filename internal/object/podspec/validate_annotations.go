package podspec

import (
	"encoding/json"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// tolerationsAnnotation contained tolerations before they became a field.
const tolerationsAnnotation = corev1.TolerationsAnnotationKey

// ValidateAnnotations validates the annotations that have a meaning for pods.
func ValidateAnnotations(annotations map[string]string, spec *corev1.PodSpec, at *field.Path, o Options) field.ErrorList {
	if len(annotations) == 0 {
		return nil
	}
	e := rules.At(at)
	if mirror, found := annotations[corev1.MirrorPodAnnotationKey]; found && spec.NodeName == "" {
		e.Key(corev1.MirrorPodAnnotationKey).Invalid(mirror, "a mirror pod has a spec.nodeName")
	}
	if text := annotations[tolerationsAnnotation]; text != "" {
		var list []corev1.Toleration
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			e.Invalid(tolerationsAnnotation, err.Error())
		} else {
			e.Add(ValidateTolerations(list, at.Child(tolerationsAnnotation), o))
		}
	}
	if !o.AllowInvalidDeletionCost && o.Gates.Enabled(features.PodDeletionCost) && !validDeletionCost(annotations) {
		e.Key(corev1.PodDeletionCost).Invalid(annotations[corev1.PodDeletionCost], "must be a 32-bit integer")
	}
	for key, value := range annotations {
		if key == corev1.SeccompPodAnnotationKey || strings.HasPrefix(key, corev1.SeccompContainerAnnotationKeyPrefix) {
			seccompAnnotation(value, e.Field(key))
		}
		if name, ok := strings.CutPrefix(key, appArmorAnnotation); ok {
			if !anyContainer(spec, func(c *corev1.Container) bool { return c.Name == name }) {
				e.Key(key).Invalid(name, "container not found")
			}
			if value != "" && value != appArmorRuntime && value != appArmorUnconfined && !strings.HasPrefix(value, appArmorLocalhost) {
				e.Key(key).Invalid(value, "no such profile")
			}
		}
	}
	return e.List()
}

func seccompAnnotation(profile string, e rules.Errors) {
	switch profile {
	case corev1.SeccompProfileRuntimeDefault, corev1.DeprecatedSeccompProfileDockerDefault, corev1.SeccompProfileNameUnconfined:
		return
	}
	name, ok := strings.CutPrefix(profile, corev1.SeccompLocalhostProfileNamePrefix)
	if !ok {
		e.Invalid(profile, "must be a valid seccomp profile")
		return
	}
	if path.IsAbs(name) {
		e.Invalid(name, "must be a relative path")
	}
	if rules.HasBackstep(name) {
		e.Invalid(name, "must not contain '..'")
	}
}

// ValidateProfiles checks that the annotations of a new pod or template agree with the security profiles in its fields.
func ValidateProfiles(annotations map[string]string, spec *corev1.PodSpec, at *field.Path) field.ErrorList {
	if len(annotations) == 0 {
		return nil
	}
	e := rules.At(at)
	var podAppArmor *corev1.AppArmorProfile
	if c := spec.SecurityContext; c != nil {
		podAppArmor = c.AppArmorProfile
		if a, found := annotations[corev1.SeccompPodAnnotationKey]; found && c.SeccompProfile != nil {
			seccompMatches(a, c.SeccompProfile, e.Field("securityContext").Field("seccompProfile"))
		}
	}
	windows := spec.OS != nil && spec.OS.Name == corev1.Windows
	for where, container := range ContainersAt(spec, at) {
		profile := podAppArmor
		if c := container.SecurityContext; c != nil {
			if a, found := annotations[corev1.SeccompContainerAnnotationKeyPrefix+container.Name]; found && c.SeccompProfile != nil {
				seccompMatches(a, c.SeccompProfile, e.Elsewhere(where.Child("securityContext", "seccompProfile")))
			}
			if c.AppArmorProfile != nil {
				profile = c.AppArmorProfile
			}
		}
		if a, found := annotations[appArmorAnnotation+container.Name]; found && profile != nil && !windows {
			appArmorMatches(a, profile, e.Elsewhere(where.Child("securityContext", "appArmorProfile")))
		}
	}
	return e.List()
}

func seccompMatches(annotation string, p *corev1.SeccompProfile, e rules.Errors) {
	const differs, profileDiffers = "seccomp type in annotation and field must match", "seccomp profile in annotation and field must match"
	name, isLocalhost := strings.CutPrefix(annotation, corev1.SeccompLocalhostProfileNamePrefix)
	switch p.Type {
	case corev1.SeccompProfileTypeUnconfined:
		if annotation != corev1.SeccompProfileNameUnconfined {
			e.Field("type").Forbidden(differs)
		}
	case corev1.SeccompProfileTypeRuntimeDefault:
		if annotation != corev1.SeccompProfileRuntimeDefault && annotation != corev1.DeprecatedSeccompProfileDockerDefault {
			e.Field("type").Forbidden(differs)
		}
	case corev1.SeccompProfileTypeLocalhost:
		if !isLocalhost {
			e.Field("type").Forbidden(differs)
		} else if p.LocalhostProfile == nil || *p.LocalhostProfile != name {
			e.Field("localhostProfile").Forbidden(profileDiffers)
		}
	}
}
