package allocation

import "iter"

// Random returns a random number below n, which is not zero.
type Random func(n uint64) uint64

// reserved returns how many numbers at the low end of a range are left for explicit requests: a part of the range,
// within bounds, and none if the range is too small.
func reserved(size, part, most uint64) uint64 {
	const least = 16
	if size <= least {
		return 0
	}
	return min(max(least, size/part), most)
}

// choices yields every number below size once, in the order in which to try them: first those that are not reserved,
// from a random one up and around, then the reserved ones at the low end.
func choices(size, reserved uint64, random Random) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		bands := []struct{ base, size uint64 }{{reserved, size - reserved}, {0, reserved}}
		for _, b := range bands {
			if b.size == 0 {
				continue
			}
			n := random(b.size)
			for range b.size {
				if !yield(b.base + n) {
					return
				}
				if n++; n == b.size {
					n = 0
				}
			}
		}
	}
}
