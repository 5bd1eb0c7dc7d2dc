package main

import "time"

const (
	trendStep = 5 * time.Second
	// trendSteps is how many steps are shown: five minutes.
	trendSteps = 60
	// maxTrends bounds the groups whose past is known.
	maxTrends = 3000
)

// trend is how many requests came in each of the last steps.
type trend struct {
	counts [trendSteps + 1]float32 // a ring; the place of a step is its number modulo the length
	newest int64
}

func (r *trend) add(step int64, n float64) {
	r.forward(step)
	if r.newest-step < int64(len(r.counts)) {
		r.counts[step%int64(len(r.counts))] += float32(n)
	}
}

// forward makes room for the steps up to one.
func (r *trend) forward(step int64) {
	if step-r.newest >= int64(len(r.counts)) {
		*r = trend{newest: step}
		return
	}
	for ; r.newest < step; r.newest++ {
		r.counts[(r.newest+1)%int64(len(r.counts))] = 0
	}
}

// before returns the steps before one, which is still going on, the oldest first.
func (r *trend) before(step int64) []float64 {
	r.forward(step)
	out := make([]float64, trendSteps)
	for n := range out {
		out[n] = float64(r.counts[(step-trendSteps+int64(n))%int64(len(r.counts))])
	}
	return out
}

func stepOf(at time.Time) int64 { return at.UnixNano() / int64(trendStep) }

// trends are those of all groups, and of all requests together under the empty key.
type trends struct {
	of   map[trendKey]*trend
	tidy int64 // the step in which the old ones were removed
}

type trendKey struct {
	grouping int
	key      string
}

// total is the key of all requests together.
var total = trendKey{grouping: -1}

func (r *trends) count(s *seen) {
	step := stepOf(s.came)
	r.add(total, step, float64(s.weight))
	for n, key := range s.keys {
		r.add(trendKey{n, key}, step, float64(s.weight))
	}
}

func (r *trends) add(k trendKey, step int64, n float64) {
	if r.of == nil {
		r.of = map[trendKey]*trend{}
	}
	if r.of[k] == nil {
		if len(r.of) >= maxTrends && r.tidy != step {
			r.tidy = step
			for k, old := range r.of {
				if step-old.newest > trendSteps {
					delete(r.of, k)
				}
			}
		}
		if len(r.of) >= maxTrends {
			return
		}
		r.of[k] = &trend{newest: step}
	}
	r.of[k].add(step, n)
}

// before returns the steps of a group before one.
func (r *trends) before(k trendKey, step int64) []float64 {
	if of := r.of[k]; of != nil {
		known := *of // what is forward in time for one reader is not yet for a request that came before
		return known.before(step)
	}
	return make([]float64, trendSteps)
}
