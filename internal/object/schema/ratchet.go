package schema

import "time"

// ratchet compares new values with old ones in one update, in which unchanged values may stay invalid, and measures the
// time.
type ratchet struct {
	now  func() time.Time // nil: not measured
	took time.Duration
}

// same is node.equal.
func (r *ratchet) same(n *node, v, old any) bool {
	if r == nil || r.now == nil {
		return n.equal(v, old)
	}
	began := r.now()
	same := n.equal(v, old)
	r.took += r.now().Sub(began)
	return same
}

// end reports the time that the update's comparisons took.
func (r *ratchet) end(t Timing) {
	if t.Ratcheting != nil {
		t.Ratcheting(r.took)
	}
}
