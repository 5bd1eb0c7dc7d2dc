// Package always has two plugins: one accepts every write, and one refuses
// every write.
package always

import (
	"context"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Names of the plugins in --enable-admission-plugins.
const (
	AdmitName = "AlwaysAdmit"
	DenyName  = "AlwaysDeny"
)

// Admit makes the plugin that accepts.
func Admit() admission.Plugin { return admission.Plugin{Name: AdmitName} }

// Deny makes the plugin that refuses.
func Deny() admission.Plugin {
	deny := admission.Func(func(_ context.Context, a *admission.Attributes) error {
		return admission.Forbiddenf(a, "admission control is denying all modifications")
	})
	return admission.Plugin{Name: DenyName, Mutator: deny, Validator: deny}
}
