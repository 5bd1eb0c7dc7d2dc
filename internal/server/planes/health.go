package planes

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/observe/findings"
	"github.com/kanzen-io/kanzen/internal/server/planes/owners"
)

// This file tells what there is to find wrong with a fleet. It asks no other server: what the log and the statuses of planes say is enough.

// naming is how many planes are told of that name a server.
const maxNaming = 5

// State returns what is known of the servers, planes and storage classes; nil: there are no other servers, and no class is away.
func (f *Fleet) State() *findings.Fleet {
	out := &findings.Fleet{Away: f.awayClasses()}
	o := f.owners.Load()
	switch {
	case o == nil && len(out.Away) == 0:
		return nil
	case o == nil:
		return out
	}
	servers, names := map[string]*findings.FleetServer{}, map[types.UID]string{}
	for _, k := range o.Servers() {
		servers[k.Name] = &findings.FleetServer{Name: k.Name, Runs: k.Server != nil, Heard: k.Heard}
	}
	now := f.on.Clock.Now()
	for _, h := range f.all() {
		names[h.uid] = h.name
		if name := h.preference(); name != "" {
			s := servers[name]
			if s == nil {
				s = &findings.FleetServer{Name: name}
				servers[name] = s
			}
			s.Named++
			s.Naming = append(s.Naming, h.name)
		}
		owner, _ := o.Owner(h.uid)
		if owner == nil || servers[owner.Name] == nil {
			continue
		}
		s := servers[owner.Name]
		s.Awake++
		if rate := h.load(owner.Name, now); rate > 0 {
			s.Busy, s.Rate = s.Busy+1, s.Rate+rate
		}
	}
	for _, s := range servers {
		slices.Sort(s.Naming)
		s.Naming = s.Naming[:min(len(s.Naming), maxNaming)]
	}
	out.Servers = slices.SortedFunc(maps.Values(servers), func(a, b *findings.FleetServer) int { return cmp.Compare(a.Name, b.Name) })
	for _, free := range o.Free() {
		if name := names[free.Plane]; name != "" {
			p := findings.FreePlane{Name: name, Since: free.Since, Last: free.Last}
			if next := o.Chosen(free.Plane); next != nil {
				p.Next = next.Name
			}
			out.Free = append(out.Free, p)
		}
	}
	out.Moving = movesOf(o.Changes(), names)
	slices.SortFunc(out.Free, func(a, b findings.FreePlane) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// awayClasses returns the storage classes whose etcds do not answer.
func (f *Fleet) awayClasses() (out []findings.AwayStorage) {
	lying := map[string][]string{}
	for _, h := range f.all() {
		class := h.lying()
		lying[class] = append(lying[class], h.name)
	}
	for _, name := range f.classNames() {
		c := f.classes[name]
		c.mu.Lock()
		away, since := c.away, c.since
		c.mu.Unlock()
		if away == nil {
			continue
		}
		names := lying[name]
		slices.Sort(names)
		out = append(out, findings.AwayStorage{Class: name, Since: since, Why: away.Error(), Planes: len(names), Some: names[:min(len(names), maxNaming)]})
	}
	return out
}

// movesOf counts how often planes went from one server to another, those that did most often first.
func movesOf(changes []owners.Change, names map[types.UID]string) []findings.MovingPlane {
	by := map[types.UID]*findings.MovingPlane{}
	for _, c := range changes {
		m := by[c.Plane]
		if m == nil {
			if names[c.Plane] == "" {
				continue
			}
			m = &findings.MovingPlane{Name: names[c.Plane], Why: map[string]int{}}
			by[c.Plane] = m
		}
		m.Moves++
		m.Why[c.Why]++
		for _, server := range []string{c.From, c.To} {
			if !slices.Contains(m.Between, server) {
				m.Between = append(m.Between, server)
			}
		}
	}
	for _, m := range by {
		slices.Sort(m.Between)
	}
	return slices.SortedFunc(func(yield func(findings.MovingPlane) bool) {
		for _, m := range by {
			if !yield(*m) {
				return
			}
		}
	}, func(a, b findings.MovingPlane) int {
		return cmp.Or(cmp.Compare(b.Moves, a.Moves), cmp.Compare(a.Name, b.Name))
	})
}

// pace is how many requests a plane gets, as its status tells it, which its owner writes from time to time.
type pace struct {
	server   string
	requests int64
	at       time.Time
	rate     float64
}

const (
	// paceEvery is the least time over which requests are counted.
	paceEvery = 10 * time.Second
	// paceFor is how long the status of a plane that is used stays as it is at most.
	paceFor = 5 * observeEvery / 2
)

// paced takes up what a status says.
func (h *hosted) paced(s *PlaneStatus, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch p := &h.pace; {
	case s.server() != p.server || s.Requests < p.requests || p.at.IsZero():
		*p = pace{server: s.server(), requests: s.Requests, at: now}
	case s.Requests > p.requests && now.Sub(p.at) >= paceEvery:
		p.rate = float64(s.Requests-p.requests) / now.Sub(p.at).Seconds()
		p.requests, p.at = s.Requests, now
	}
}

// load is how many requests a second the plane gets on a server.
func (h *hosted) load(server string, now time.Time) float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pace.server != server || now.Sub(h.pace.at) > paceFor {
		return 0
	}
	return h.pace.rate
}
