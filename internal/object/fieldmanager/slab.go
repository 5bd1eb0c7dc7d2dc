package fieldmanager

// slab keeps many short slices in one long one.
type slab[T any] struct {
	all  []T
	used int
}

// A slab of a large object is not kept for the next write.
const (
	minSlab = 64
	maxSlab = 4096
)

// keep copies a slice to the slab. The copy is there until the slab is emptied.
func (s *slab[T]) keep(v []T) []T {
	if len(v) == 0 {
		return nil
	}
	if s.used+len(v) > len(s.all) {
		// What is kept so far stays where it is.
		s.all, s.used = make([]T, max(minSlab, 2*len(s.all), len(v))), 0
	}
	out := s.all[s.used : s.used+len(v) : s.used+len(v)]
	s.used += len(v)
	copy(out, v)
	return out
}

// empty lets the slab be used again.
func (s *slab[T]) empty() {
	clear(s.all[:s.used])
	s.used = 0
	if len(s.all) > maxSlab {
		s.all = nil
	}
}

// emptied returns a slice to be used again, without what was in it.
func emptied[T any](s []T) []T {
	if cap(s) > maxSlab {
		return nil
	}
	clear(s[:cap(s)])
	return s[:0]
}
