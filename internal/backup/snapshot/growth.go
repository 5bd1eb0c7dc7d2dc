package snapshot

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/utils/clock"
)

// This file remembers what was found before, so that whoever looks at the space sees what has grown.

const (
	// growthEvery is how often a server looks by itself, and growthApart how long after another a look is remembered at the earliest.
	growthEvery = time.Hour
	growthApart = 50 * time.Minute
	// growthKept is for how long looks are remembered, and growthRows of how many resources, namespaces and pairs of both.
	growthKept = 25 * time.Hour
	growthRows = 1000
	// growthMost is the size of a database up to which a server looks by itself: a look reads all of it.
	growthMost = 2 << 30
)

// growth is what earlier looks have found.
type growth struct {
	looks []sizesAt // the oldest first
}

// sizesAt are the bytes of what there was at a time.
type sizesAt struct {
	at                            time.Time
	resources, namespaces, placed remembered
}

// remembered are the bytes of objects by name.
type remembered struct {
	bytes map[[2]string]int64
	cut   bool // there were more
}

func remember(all []Amount) remembered {
	out := remembered{bytes: make(map[[2]string]int64, min(len(all), growthRows)), cut: len(all) > growthRows}
	for _, a := range all[:min(len(all), growthRows)] {
		out.bytes[[2]string{a.Name, a.Namespace}] = a.Bytes
	}
	return out
}

// compare says how much each amount has grown. Of what was not remembered it is not known.
func (r remembered) compare(all []Amount) {
	for n := range all {
		a := &all[n]
		if before, ok := r.bytes[[2]string{a.Name, a.Namespace}]; ok || !r.cut {
			grown := a.Bytes - before
			a.Grown = &grown
		}
	}
}

// add compares what was found with the look that is nearest to a time ago, and remembers it.
func (g *growth) add(s *Space, now time.Time, ago time.Duration) {
	g.looks = slices.DeleteFunc(g.looks, func(l sizesAt) bool { return now.Sub(l.at) > growthKept })
	if len(g.looks) > 0 {
		distance := func(l sizesAt) time.Duration { return now.Add(-ago).Sub(l.at).Abs() }
		nearest := slices.MinFunc(g.looks, func(a, b sizesAt) int { return cmp.Compare(distance(a), distance(b)) })
		s.Since = &nearest.at
		nearest.resources.compare(s.Resources)
		nearest.namespaces.compare(s.Namespaces)
		nearest.placed.compare(s.Placed)
	}
	if n := len(g.looks); n == 0 || now.Sub(g.looks[n-1].at) >= growthApart {
		g.looks = append(g.looks, sizesAt{now, remember(s.Resources), remember(s.Namespaces), remember(s.Placed)})
	}
}

// Keep looks again and again until ctx ends, so that growth is known when somebody asks. size returns the size of the database.
func (h *SpaceHandler) Keep(ctx context.Context, c clock.WithTicker, size func(ctx context.Context) (*Disk, error)) {
	ticker := c.NewTicker(growthEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		if disk, err := size(ctx); err != nil || disk.Bytes > growthMost {
			continue
		}
		if _, err := h.find(ctx, 0, growthEvery); err != nil && ctx.Err() == nil {
			h.log.Debug("the space of the database could not be looked at", "error", err)
		}
	}
}
