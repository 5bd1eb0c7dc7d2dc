package h2

import (
	"math"
	"slices"
)

// defaultWindow is what each side may send before the other has said how much it takes (RFC 9113, section 6.9.2).
const defaultWindow = 65535

// inflow is a window for what the client sends.
type inflow struct {
	left   int32 // what the client may send
	unsent int32 // what was read, of which the client has not been told
	worth  int32 // how much unsent must be to be worth a frame
}

func newInflow(window int32) inflow { return inflow{left: window, worth: window / 4} }

// take notes that n bytes arrived. It says whether the client was allowed to send them.
func (f *inflow) take(n uint32) bool {
	if n > uint32(f.left) {
		return false
	}
	f.left -= int32(n)
	return true
}

// give notes that n bytes were read. It returns by how much the client is to be told that the window has grown; 0: it is not told yet.
func (f *inflow) give(n int) uint32 {
	f.unsent += int32(n)
	if f.unsent < f.worth && f.unsent < f.left {
		return 0
	}
	update := f.unsent
	f.left += update
	f.unsent = 0
	return uint32(update)
}

// outflow is a window for what is sent to the client. It can be negative (RFC 9113, section 6.9.2).
type outflow int32

// add says whether the window can grow by n, and lets it grow.
func (f *outflow) add(n int32) bool {
	sum := int64(*f) + int64(n)
	if sum > math.MaxInt32 || sum < math.MinInt32 {
		return false
	}
	*f = outflow(sum)
	return true
}

// refund gives back what arrived for a stream and is not going to be read. Stream nil: the connection's window only.
func (c *conn) refund(st *stream, n int) {
	if n <= 0 {
		return
	}
	if update := c.inflow.give(n); update > 0 {
		c.windowUpdate(0, update)
	}
	if st == nil || st.ended || st.gone {
		return // nothing more comes
	}
	if update := st.inflow.give(n); update > 0 {
		c.windowUpdate(st.id, update)
	}
}

// sendable returns how many of n bytes of a stream can be queued now. c.mu is held.
func (c *conn) sendable(st *stream, n int) int {
	return max(0, min(n, int(st.outflow), int(c.outflow), c.frameSize))
}

// await waits until something has changed for a stream whose next frame cannot be queued: its window, that of the connection, room
// for bytes to be written, or its end. own: it is its window that is missing. c.mu is held, and released meanwhile.
func (c *conn) await(st *stream, own bool) {
	if st.wake == nil {
		st.wake = make(chan struct{}, 1)
	}
	if own {
		c.next() // what there is, is for others
	} else {
		c.blocked = append(c.blocked, st)
	}
	c.mu.Unlock()
	<-st.wake
	c.mu.Lock()
	if i := slices.Index(c.blocked, st); i >= 0 {
		c.blocked = slices.Delete(c.blocked, i, i+1) // it was woken for another reason
	}
}

// wakeUp wakes the stream if it waits.
func (st *stream) wakeUp() {
	if st.wake == nil {
		return
	}
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// next wakes the stream that has waited longest for the window of the connection or for room, if there is some. Each stream that was woken
// wakes the next one when it has taken its part, or does not need it.
func (c *conn) next() {
	if len(c.blocked) > 0 && c.outflow > 0 && c.roomy() {
		st := c.blocked[0]
		c.blocked = slices.Delete(c.blocked, 0, 1)
		st.wakeUp()
	}
}
