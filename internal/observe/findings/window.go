package findings

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	slotTime = 5 * time.Second
	slots    = 12
)

// span is the time about which windows tell.
const span = slots * slotTime

// slotOf returns the number of the slot that a time is in.
func slotOf(t time.Time) int64 { return t.UnixNano() / int64(slotTime) }

// window sums what happened in the last minute.
type window struct {
	newest int64 // slot
	sums   [slots]float64
}

// add adds to a slot, unless that is over.
func (w *window) add(slot int64, n float64) {
	w.turn(slot)
	if slot > w.newest-slots {
		w.sums[slot%slots] += n
	}
}

// turn forgets what lies too far behind a slot.
func (w *window) turn(slot int64) {
	if slot-w.newest >= slots {
		w.sums = [slots]float64{}
		w.newest = slot
	}
	for ; w.newest < slot; w.newest++ {
		w.sums[(w.newest+1)%slots] = 0
	}
}

// sum returns the sum of the minute that ends in a slot.
func (w *window) sum(slot int64) (n float64) {
	w.turn(slot)
	for _, s := range w.sums {
		n += s
	}
	return n
}

// maxNames bounds the names that are kept of who suffers, or takes part.
const maxNames = 8

// names counts by name, up to some names.
type names map[string]int

func (n *names) add(name string) {
	if *n == nil {
		*n = names{}
	}
	if _, ok := (*n)[name]; ok || len(*n) < maxNames {
		(*n)[name]++
	}
}

// list returns the names, the most frequent first, as people write a list.
func (n names) list() string {
	all := slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(cmp.Compare(n[b], n[a]), strings.Compare(a, b)) })
	const shown = 4
	if len(all) > shown {
		all = append(all[:shown], "others")
	}
	return listed(all)
}

func listed(all []string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}
