package podspec

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
	"github.com/kanzen-io/kanzen/internal/request"
)

// AppArmor profiles were annotations, one for each container, before they became a field. The annotations still work.
const (
	appArmorAnnotation  = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix
	appArmorLocalhost   = corev1.DeprecatedAppArmorBetaProfileNamePrefix
	appArmorRuntime     = corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
	appArmorUnconfined  = corev1.DeprecatedAppArmorBetaProfileNameUnconfined
	longestProfileName  = 4095 // PATH_MAX without the terminating NUL
	appArmorFieldAdvice = `%s: deprecated since v1.30; use the "appArmorProfile" field instead`
)

var appArmorTypes = []corev1.AppArmorProfileType{
	corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined,
}

func appArmorProfile(p *corev1.AppArmorProfile, e rules.Errors) {
	rules.RequiredOneOf(e, "type", p.Type, appArmorTypes)
	name := e.Field("localhostProfile")
	switch p.Type {
	case corev1.AppArmorProfileTypeLocalhost:
		if p.LocalhostProfile == nil {
			name.Required("must be set when AppArmor type is Localhost")
			return
		}
		switch trimmed := strings.TrimSpace(*p.LocalhostProfile); {
		case trimmed != *p.LocalhostProfile:
			name.Invalid(*p.LocalhostProfile, "must not be padded with whitespace")
		case trimmed == "":
			name.Required("must be set when AppArmor type is Localhost")
		}
		if len(*p.LocalhostProfile) > longestProfileName {
			name.TooLong(longestProfileName)
		}
	case corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined:
		if p.LocalhostProfile != nil {
			name.Invalid(*p.LocalhostProfile, "can only be set when AppArmor type is Localhost")
		}
	}
}

// profileOf converts an annotation to the field; nil if the profile is unknown.
func profileOf(annotation string) *corev1.AppArmorProfile {
	switch annotation {
	case appArmorUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case appArmorRuntime:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	}
	if name, ok := strings.CutPrefix(annotation, appArmorLocalhost); ok && name != "" {
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	}
	return nil
}

// SyncAppArmor copies the profiles in a new pod's annotations to its containers, and warns about the annotations.
func SyncAppArmor(ctx context.Context, p *corev1.Pod) {
	if len(p.Annotations) == 0 || p.Spec.OS != nil && p.Spec.OS.Name == corev1.Windows {
		return
	}
	var podProfile *corev1.AppArmorProfile
	if c := p.Spec.SecurityContext; c != nil {
		podProfile = c.AppArmorProfile
	}
	for c := range Containers(&p.Spec) {
		key := appArmorAnnotation + c.Name
		annotation, found := p.Annotations[key]
		if !found || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			continue
		}
		profile := profileOf(annotation)
		if profile != nil {
			e := rules.At(nil)
			appArmorProfile(profile, e)
			if len(e.List()) > 0 {
				profile = nil
			}
		}
		if profile != nil && apiequality.Semantic.DeepEqual(profile, podProfile) {
			continue
		}
		if profile != nil {
			if c.SecurityContext == nil {
				c.SecurityContext = &corev1.SecurityContext{}
			}
			c.SecurityContext.AppArmorProfile = profile
		}
		request.AddWarning(ctx, fmt.Sprintf(appArmorFieldAdvice, field.NewPath("metadata", "annotations").Key(key)))
	}
}

// appArmorMatches checks that a container's annotation and field agree, if both are set.
func appArmorMatches(annotation string, p *corev1.AppArmorProfile, e rules.Errors) {
	const differs, profileDiffers = "apparmor type in annotation and field must match", "apparmor profile in annotation and field must match"
	name, isLocalhost := strings.CutPrefix(annotation, appArmorLocalhost)
	switch p.Type {
	case corev1.AppArmorProfileTypeUnconfined:
		if annotation != appArmorUnconfined {
			e.Field("type").Forbidden(differs)
		}
	case corev1.AppArmorProfileTypeRuntimeDefault:
		if annotation != appArmorRuntime {
			e.Field("type").Forbidden(differs)
		}
	case corev1.AppArmorProfileTypeLocalhost:
		if !isLocalhost {
			e.Field("type").Forbidden(differs)
		} else if p.LocalhostProfile == nil || *p.LocalhostProfile != name {
			e.Field("localhostProfile").Forbidden(profileDiffers)
		}
	}
}
