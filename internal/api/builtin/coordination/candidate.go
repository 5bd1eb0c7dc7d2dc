package coordination

import (
	"context"

	"github.com/blang/semver/v4"
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1alpha2 "k8s.io/api/coordination/v1alpha2"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// leaseCandidates are the components that want a lease. No gate hides them, because both versions are chosen by hand; the gate
// CoordinatedLeaderElection says whether anybody elects them.
func leaseCandidates() *engine.Resource {
	return &engine.Resource{
		Plural: "leasecandidates", Kind: "LeaseCandidate",
		Namespaced: true,
		Versions: engine.Renamed(
			engine.VersionOf[coordinationv1beta1.LeaseCandidate, coordinationv1beta1.LeaseCandidateList](v1beta1, nil),
			engine.VersionOf[coordinationv1alpha2.LeaseCandidate, coordinationv1alpha2.LeaseCandidateList](coordinationv1alpha2.SchemeGroupVersion, nil),
		),
		Rules: engine.Typed[*coordinationv1beta1.LeaseCandidate]{
			Validate:             validateCandidate,
			ValidateUpdate:       validateCandidateUpdate,
			CreateOnUpdate:       true,
			NeedsResourceVersion: true,
		}.Rules(),
		Table: candidateTable(),
	}
}

func validateCandidate(_ context.Context, c *coordinationv1beta1.LeaseCandidate) field.ErrorList {
	return append(rules.GenericMeta(&c.ObjectMeta, true, candidateName), candidateSpec(&c.Spec)...)
}

func validateCandidateUpdate(_ context.Context, c, old *coordinationv1beta1.LeaseCandidate) field.ErrorList {
	e := rules.At(field.NewPath("spec"))
	e.Add(rules.GenericMetaUpdate(&c.ObjectMeta, &old.ObjectMeta))
	e.Add(candidateSpec(&c.Spec))
	e.Add(rules.Immutable(c.Spec.LeaseName, old.Spec.LeaseName, e.Path().Child("leaseName")))
	return e.List()
}

// candidateName allows the names of hosts, with an underscore and a suffix, by which components name themselves.
func candidateName(name string, _ bool) []string { return validation.IsConfigMapKey(name) }

func candidateSpec(s *coordinationv1beta1.LeaseCandidateSpec) field.ErrorList {
	e := rules.At(field.NewPath("spec"))
	e.Present("leaseName", s.LeaseName)
	emulated, binary := semver.Version{}, semver.Version{}
	if s.EmulationVersion != "" {
		emulated = semantic(e.Field("emulationVersion"), s.EmulationVersion)
	}
	if e.Present("binaryVersion", s.BinaryVersion) {
		binary = semantic(e.Field("binaryVersion"), s.BinaryVersion)
	}
	if s.BinaryVersion != "" && s.EmulationVersion != "" && binary.LT(emulated) {
		e.Field("binaryVersion").Invalid(s.BinaryVersion, "must not be older than `emulationVersion`")
	}
	if !e.Present("strategy", string(s.Strategy)) {
		return e.List()
	}
	if s.Strategy == coordinationv1.OldestEmulationVersion && emulated.EQ(semver.Version{}) {
		e.Field("emulationVersion").Required("needed for the `strategy` OldestEmulationVersion")
	}
	strategy(s.Strategy, e)
	return e.List()
}

// semantic reads a version; an invalid one, which it reports, is the lowest.
func semantic(e rules.Errors, value string) semver.Version {
	v, err := semver.Parse(value)
	if err != nil {
		e.Invalid(value, "must be a valid semantic version")
	}
	return v
}
