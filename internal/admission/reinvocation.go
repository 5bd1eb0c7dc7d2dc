package admission

import (
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
)

// Reinvocation is what a plugin that calls others (webhooks, policies) to change an
// object keeps of one write: whom it called in the first round, and whom of
// those it calls again in the second, because the object was changed after
// them.
type Reinvocation struct {
	left          runtime.Object // as the first round left it
	called, again []string
}

// BeginRound begins a round of a plugin. What other plugins have changed since
// the first one makes all be called again that were.
func BeginRound(a *Attributes, plugin string) *Reinvocation {
	r, _ := a.Note(plugin).(*Reinvocation)
	if r == nil {
		r = &Reinvocation{}
		a.SetNote(plugin, r)
	}
	if a.Again() && !apiequality.Semantic.DeepEqual(r.left, a.Object) {
		r.Changed()
	}
	return r
}

// Calls says whether one is called in this round. The second calls nobody for
// the first time.
func (r *Reinvocation) Calls(a *Attributes, id string) bool {
	return !a.Again() || slices.Contains(r.again, id)
}

// Called notes one that may be called again.
func (r *Reinvocation) Called(id string) { r.called = append(r.called, id) }

// Changed says that the object is not what those saw that were called.
func (r *Reinvocation) Changed() {
	r.again = append(r.again, r.called...)
	r.called = nil
}

// End ends the round. Only a first one that has somebody to call again keeps
// the object.
func (r *Reinvocation) End(a *Attributes) {
	r.left = nil
	if !a.Again() && len(r.called)+len(r.again) > 0 && a.Object != nil {
		r.left = a.Object.DeepCopyObject()
	}
}
