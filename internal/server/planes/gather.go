package planes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/base/version"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/server/planes/owners"
)

// This file tells what all planes do, and the servers that share them: a server that is asked asks the others, which are not asked before.

const (
	// figuresPath is where a server tells the others what it does (owners.Ask).
	figuresPath = "/figures"
	// gatherWait bounds how long a server waits for the others, all of them together.
	gatherWait = 800 * time.Millisecond
	// gatherFor is how long what they have said is good for further readers.
	gatherFor = 500 * time.Millisecond
	// maxFigures bounds what one of them may say, in bytes.
	maxFigures = 16 << 20
	// maxNamed bounds how many servers are told of that only specs of planes name.
	maxNamed = 100
)

// gathering is what was gathered last.
type gathering struct {
	mu      sync.Mutex // held while the others are asked, as all readers wait for the same
	at      time.Time
	planes  []*v1alpha1.PlaneStat
	servers []*v1alpha1.PlaneServer
	silent  map[string]time.Time // since when servers do not answer that run
}

// told is what a server says of itself, and of the planes that it has, or had last.
type told struct {
	Server *v1alpha1.PlaneServer `json:"server"`
	Planes []*v1alpha1.PlaneStat `json:"planes"`

	err     error // why it says nothing
	refused bool  // it has answered, but not that
}

// Stats returns what all planes do now, those that are used most first.
func (f *Fleet) Stats() []*v1alpha1.PlaneStat {
	g := &f.gathering
	g.mu.Lock()
	defer g.mu.Unlock()
	f.gather()
	return g.planes
}

// Servers returns the servers that share the planes, by name.
func (f *Fleet) Servers() []*v1alpha1.PlaneServer {
	g := &f.gathering
	g.mu.Lock()
	defer g.mu.Unlock()
	f.gather()
	return g.servers
}

// gather asks all servers, unless that was done just now. The caller holds the lock of the gathering.
func (f *Fleet) gather() {
	g := &f.gathering
	if now := f.on.Clock.Now(); !g.at.IsZero() && now.Sub(g.at) < gatherFor {
		return
	}
	o := f.owners.Load()
	answers := map[string]*told{}
	var known []owners.Known
	if o != nil {
		known = o.Servers()
		answers = f.askAll(o, known)
	}
	self := f.says()
	self.Server.Answers = true
	answers[self.Server.Name] = self
	g.planes = f.joinPlanes(o, answers)
	g.servers = f.joinServers(o, known, answers)
	g.at = f.on.Clock.Now()
}

// askAll asks all other servers that run at the same time.
func (f *Fleet) askAll(o *owners.Owners, known []owners.Known) map[string]*told {
	ctx, cancel := context.WithTimeout(f.serving, gatherWait)
	defer cancel()
	out := map[string]*told{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, k := range known {
		if k.Server == nil || k.Server == o.Self() {
			continue
		}
		all.Go(func() {
			said := ask(ctx, o, k.Server)
			mu.Lock()
			defer mu.Unlock()
			out[k.Name] = said
		})
	}
	all.Wait()
	return out
}

// ask asks a server what it does.
func ask(ctx context.Context, o *owners.Owners, to *owners.Server) *told {
	answer, err := o.Ask(ctx, to, figuresPath)
	if err != nil {
		return &told{err: err}
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return &told{err: fmt.Errorf("it tells no figures: %s", answer.Status), refused: true}
	}
	said := &told{}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxFigures)).Decode(said); err != nil {
		return &told{err: fmt.Errorf("read its figures: %w", err)}
	}
	if said.Server == nil {
		return &told{err: errors.New("its figures are incomplete"), refused: true}
	}
	return said
}

// answer tells another server what this one does.
func (f *Fleet) answer(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.URL.Path != figuresPath {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(f.says()) // the other may have gone away
}

// says returns what this server says of itself.
func (f *Fleet) says() *told {
	s := &v1alpha1.PlaneServer{State: v1alpha1.ServerRunning, Host: f.on.Hostname(), Version: version.Kanzen, Memory: f.metrics.memory(),
		Passed: f.metrics.passedOn.Load(), PassedFailed: f.metrics.passedFailed.Load()}
	started := metav1.NewTime(f.began)
	s.Name, s.Started = f.name(), &started
	out := &told{Server: s, Planes: []*v1alpha1.PlaneStat{}}
	for _, h := range f.all() {
		p := h.stat()
		s.Requests, s.Refused, s.Watches = s.Requests+p.Requests, s.Refused+p.Refused, s.Watches+p.Watches
		switch {
		case p.State == awake:
			s.Awake++
			out.Planes = append(out.Planes, p)
		case h.hadIt() && (p.Requests > 0 || p.Refused > 0 || p.Wakes > 0):
			out.Planes = append(out.Planes, p)
		}
	}
	return out
}

// name is what this server is called.
func (f *Fleet) name() string {
	if o := f.owners.Load(); o != nil {
		return o.Name
	}
	if at, err := url.Parse(f.url); err == nil && at.Host != "" {
		return at.Host
	}
	return f.on.Hostname()
}

// joinPlanes makes one list of what the servers have said. A plane's owner says what it does, or who had it last.
func (f *Fleet) joinPlanes(o *owners.Owners, answers map[string]*told) []*v1alpha1.PlaneStat {
	moves := map[types.UID]int64{}
	if o != nil {
		for _, c := range o.Changes() {
			moves[c.Plane]++
		}
	}
	all := f.all()
	byName, out := make(map[string]*v1alpha1.PlaneStat, len(all)), make([]*v1alpha1.PlaneStat, 0, len(all))
	for _, h := range all {
		s := h.stat()
		if o != nil {
			s.Server = ""
			if owner, _ := o.Owner(h.uid); owner == o.Self() && s.State == awake {
				s.Server = owner.Name
			} else if owner != nil && owner != o.Self() {
				s = &v1alpha1.PlaneStat{ObjectMeta: s.ObjectMeta, State: awake, Server: owner.Name, Objects: s.Objects, Bytes: s.Bytes}
			}
		}
		s.Moves = moves[h.uid]
		byName[s.Name] = s
		out = append(out, s)
	}
	for server, a := range answers {
		if a.Server == nil || a.Server.Answers {
			continue
		}
		for _, p := range a.Planes {
			s := byName[p.Name]
			if s == nil || s.Server != "" && s.Server != server || s.Server == "" && p.State == awake {
				continue // it is gone, or another has it now
			}
			name, state, moved := s.Server, s.State, s.Moves
			*s = *p
			s.Server, s.State, s.Moves = name, state, moved
		}
	}
	slices.SortFunc(out, func(a, b *v1alpha1.PlaneStat) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name))
	})
	for n, s := range out {
		s.Rank = int64(n + 1)
	}
	return out
}

// joinServers makes one list of the servers that are known, and of those that planes name.
func (f *Fleet) joinServers(o *owners.Owners, known []owners.Known, answers map[string]*told) []*v1alpha1.PlaneServer {
	byName := map[string]*v1alpha1.PlaneServer{}
	for _, a := range answers {
		if a.Server != nil {
			byName[a.Server.Name] = a.Server
		}
	}
	for _, k := range known {
		s := byName[k.Name]
		if s == nil {
			s = f.without(k, answers[k.Name])
			byName[k.Name] = s
		}
		if k.Leaving && s.State == v1alpha1.ServerRunning {
			s.State = v1alpha1.ServerLeaving
		}
	}
	more := 0
	for _, h := range f.all() {
		name := h.preference()
		if name == "" {
			continue
		}
		if byName[name] == nil && o != nil && more < maxNamed {
			more++
			byName[name] = &v1alpha1.PlaneServer{ObjectMeta: metav1.ObjectMeta{Name: name}, State: v1alpha1.ServerAway}
		}
		if s := byName[name]; s != nil {
			s.Named++
		}
	}
	if o != nil {
		for _, c := range o.Changes() {
			if s := byName[c.To]; s != nil && c.Why == owners.TakenOver {
				s.TakenOver++
			} else if s != nil {
				s.Moved++
			}
		}
	}
	maps.DeleteFunc(f.gathering.silent, func(name string, _ time.Time) bool {
		return byName[name] == nil || byName[name].State != v1alpha1.ServerUnreachable
	})
	return slices.SortedFunc(maps.Values(byName), func(a, b *v1alpha1.PlaneServer) int { return cmp.Compare(a.Name, b.Name) })
}

// without tells of a server that has said nothing of itself.
func (f *Fleet) without(k owners.Known, said *told) *v1alpha1.PlaneServer {
	s := &v1alpha1.PlaneServer{ObjectMeta: metav1.ObjectMeta{Name: k.Name}, State: v1alpha1.ServerAway}
	since := metav1.NewTime(k.Heard)
	switch {
	case k.Server == nil:
		s.Since = &since
	case said != nil && said.refused:
		s.State, s.Error = v1alpha1.ServerRunning, said.err.Error()
	default:
		s.State = v1alpha1.ServerUnreachable
		if said != nil {
			s.Error = said.err.Error()
		}
		g := &f.gathering
		if g.silent[k.Name].IsZero() {
			if g.silent == nil {
				g.silent = map[string]time.Time{}
			}
			g.silent[k.Name] = f.on.Clock.Now()
		}
		since = metav1.NewTime(g.silent[k.Name])
		s.Since = &since
	}
	if k.Server != nil { // what it has is known all the same
		for _, h := range f.all() {
			if owner, _ := f.owners.Load().Owner(h.uid); owner == k.Server {
				s.Awake++
			}
		}
	}
	return s
}

// hadIt reports whether this server is the owner of the plane, or was the last one.
func (h *hosted) hadIt() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.had
}

// newMemory returns what measures the memory of this process; 0: that is not known.
func newMemory() func() int64 {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return func() int64 {
		all, err := r.Gather()
		if err != nil {
			return 0
		}
		for _, m := range all {
			if m.GetName() == "process_resident_memory_bytes" && len(m.GetMetric()) == 1 {
				return int64(m.GetMetric()[0].GetGauge().GetValue())
			}
		}
		return 0
	}
}
