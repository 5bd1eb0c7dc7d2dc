package schema

import "time"

// ratchet compares new values to old ones in one update, where what has not
// changed may stay wrong, and knows how long that took.
type ratchet struct {
	now  func() time.Time // nil: nobody wants to know
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

// end tells what the update's comparisons took.
func (r *ratchet) end(t Timing) {
	if t.Ratcheting != nil {
		t.Ratcheting(r.took)
	}
}
