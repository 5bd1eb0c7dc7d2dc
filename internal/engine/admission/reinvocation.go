package admission

import (
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
)

// Reinvocation is the state that a plugin with callees (webhooks, policies) keeps
// for one write: which callees it called in the first round, and which of those it
// calls again in the second, because the object was changed after them.
type Reinvocation struct {
	left          runtime.Object // the object as the first round left it
	called, again []string
}

// BeginRound begins a round of a plugin. If other plugins have changed the object
// since the first round, all called ones are called again.
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

// Calls says whether to make a call in this round. The second round makes only
// calls that the first has made.
func (r *Reinvocation) Calls(a *Attributes, id string) bool {
	return !a.Again() || slices.Contains(r.again, id)
}

// Called records a call that may be made again.
func (r *Reinvocation) Called(id string) { r.called = append(r.called, id) }

// Changed records that the object was changed, so the calls so far are to be made
// again.
func (r *Reinvocation) Changed() {
	r.again = append(r.again, r.called...)
	r.called = nil
}

// End ends the round. It keeps the object only after a first round with calls.
func (r *Reinvocation) End(a *Attributes) {
	r.left = nil
	if !a.Again() && len(r.called)+len(r.again) > 0 && a.Object != nil {
		r.left = a.Object.DeepCopyObject()
	}
}
