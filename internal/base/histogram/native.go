package histogram

import (
	"iter"
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// Native buckets of the schema s grow by a factor of 2^(1/2^s): the bucket with the key k has what is above 2^((k-1)/2^s) and not above
// 2^(k/2^s). So there are 2^s of them in each power of two, and those of one schema are pairs of those of the next one.
const finest, coarsest = 8, -4

// schemaOf returns the coarsest schema whose buckets grow by at most a factor.
func schemaOf(factor float64) int {
	return int(min(max(-math.Floor(math.Log2(math.Log2(factor))), coarsest), finest))
}

// parts is how many buckets of the finest schema are in a power of two.
const parts = 1 << finest

// bounds are those of the buckets of the finest schema between 1/2 and 1, and 1 as the last. Those of other schemas are among them.
//
// They are to have the very bits of the library's, lest a value at a bound be counted elsewhere. That has 1/2, multiplied by the roots
// of two that make up the exponent, beginning with the greatest; where the square root is not the float64 nearest to it, but the one
// below. All this is exact on every processor, while math.Exp2 is not.
var bounds = func() (all [parts + 1]float64) {
	for n := range parts {
		all[n] = 0.5
		root := math.Nextafter(math.Sqrt2, 1)
		for bit := parts / 2; bit > 0; bit /= 2 {
			if n&bit != 0 {
				all[n] *= root
			}
			root = math.Sqrt(root)
		}
	}
	all[parts] = 1
	return all
}()

// from has the first bucket for each of many equal parts between 1/2 and 1. As these are narrower than any bucket, a value is in that
// bucket or in the next.
var from = func() (all [2 * parts]uint16) {
	for n := range all {
		at, _ := slices.BinarySearch(bounds[:], 0.5+float64(n)/(4*parts))
		all[n] = uint16(at)
	}
	return all
}()

// How a float64 is made up.
const (
	fractionBits = 52
	fractionMask = 1<<fractionBits - 1
	half         = 1022 << fractionBits // with which a fraction is between 1/2 and 1
)

// keyOf returns the key that a value above zero has in the finest schema. What is infinite is in the bucket behind that of the greatest
// number.
func keyOf(value float64) int {
	bits := math.Float64bits(value)
	exponent := int(bits>>fractionBits) - 1022 // as of math.Frexp
	switch exponent {
	case -1022: // it has fewer bits
		return keyOf(value*(1<<fractionBits)) - fractionBits*parts
	case 1025:
		return 1024*parts + 1
	}
	fraction := bits & fractionMask
	n := int(from[fraction>>(fractionBits-finest-1)])
	if bounds[n] < math.Float64frombits(half|fraction) {
		n++
	}
	return (exponent-1)*parts + n
}

// exponential are the native buckets of a series.
type exponential struct {
	schema             int32
	zero               uint64
	positive, negative sparse
}

// observe counts a value with some key in the finest schema. If there are too many buckets then, they are merged; that is once
// for an observation, and the next one sees whether it was enough.
func (e *exponential) observe(k *kind, value float64, key int) {
	shift := finest - e.schema
	key = (key + 1<<shift - 1) >> shift // rounded up, as the bound above is the bucket's own
	switch {
	case value > k.zero:
		e.positive.add(key, 1)
	case value < -k.zero:
		e.negative.add(key, 1)
	case math.IsNaN(value):
		return
	default:
		e.zero++
	}
	if int(e.positive.used)+int(e.negative.used) > k.most && e.schema > coarsest {
		e.schema--
		e.positive, e.negative = e.positive.halved(), e.negative.halved()
	}
}

func (e *exponential) clone() *exponential {
	cloned := *e
	cloned.positive, cloned.negative = e.positive.clone(), e.negative.clone()
	return &cloned
}

func (e *exponential) write(k *kind, out *dto.Histogram) {
	out.Schema, out.ZeroThreshold, out.ZeroCount = &e.schema, &k.zero, &e.zero
	out.PositiveSpan, out.PositiveDelta = e.positive.write()
	out.NegativeSpan, out.NegativeDelta = e.negative.write()
	if k.zero == 0 && e.zero == 0 && out.PositiveSpan == nil && out.NegativeSpan == nil {
		out.PositiveSpan = []*dto.BucketSpan{{Offset: new(int32), Length: new(uint32)}} // or it would look like one without native buckets
	}
}

// sparse are counts by key. Keys in use are mostly close to each other, but a single value may be far away. So counts are in pages, and
// where these are is in a table of just the range in use.
type sparse struct {
	first int32    // the number of the page that where begins with
	used  int32    // keys
	where []uint32 // by the number of a page: its place in pages, plus one; zero: it is not there
	pages [][page]uint64
}

// page is how many successive keys are in one: with the schema of most histograms, a power of two.
const page = 8

// add adds a count above zero.
func (s *sparse) add(key int, n uint64) {
	number := key>>3 - int(s.first)
	if uint(number) >= uint(len(s.where)) || s.where[number] == 0 {
		number = s.insert(key >> 3)
	}
	count := &s.pages[s.where[number]-1][key&(page-1)]
	if *count == 0 {
		s.used++
	}
	*count += n
}

// insert makes a page, and returns where in s.where it is. Both slices grow by no more than that needs, as it seldom happens.
func (s *sparse) insert(number int) int {
	if len(s.where) == 0 {
		s.first = int32(number)
	}
	first, end := min(number, int(s.first)), max(number+1, int(s.first)+len(s.where))
	where := make([]uint32, end-first)
	copy(where[int(s.first)-first:], s.where)
	pages := make([][page]uint64, len(s.pages)+1)
	copy(pages, s.pages)
	where[number-first] = uint32(len(pages))
	s.first, s.where, s.pages = int32(first), where, pages
	return number - first
}

// all are the keys in use, in their order, with their counts.
func (s *sparse) all() iter.Seq2[int, uint64] {
	return func(yield func(int, uint64) bool) {
		for number, place := range s.where {
			if place == 0 {
				continue
			}
			for n, count := range s.pages[place-1] {
				if count > 0 && !yield((int(s.first)+number)*page+n, count) {
					return
				}
			}
		}
	}
}

// halved returns the counts by the keys of the next coarser schema.
func (s *sparse) halved() sparse {
	var coarser sparse
	for key, count := range s.all() {
		coarser.add((key+1)>>1, count)
	}
	return coarser
}

func (s *sparse) clone() sparse {
	cloned := *s
	cloned.where, cloned.pages = slices.Clone(s.where), slices.Clone(s.pages)
	return cloned
}

// write returns runs of keys, each with how far behind the last one it begins, and how much each count differs from the one before.
// Of one or two unused keys in between the zeros are shorter than a new run.
func (s *sparse) write() (spans []*dto.BucketSpan, deltas []int64) {
	next, last := 0, int64(0)
	for key, count := range s.all() {
		gap := key - next
		if spans == nil || gap > 2 {
			offset := int32(gap)
			spans = append(spans, &dto.BucketSpan{Offset: &offset, Length: new(uint32)})
			gap = 0
		}
		for range gap {
			deltas = append(deltas, -last)
			last = 0
		}
		deltas = append(deltas, int64(count)-last)
		*spans[len(spans)-1].Length += uint32(gap) + 1
		next, last = key+1, int64(count)
	}
	return spans, deltas
}
