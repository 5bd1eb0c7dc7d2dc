package owners

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// This file has what a server remembers of servers that are gone, and of planes that went from one to another. It is in memory only: a
// server that is started anew knows nothing of what was before.

const (
	// remembered is for how long it does.
	remembered = time.Hour
	// maxChanges and maxGone bound how much.
	maxChanges, maxGone = 10_000, 1000
)

// Why a plane has another server than before.
const (
	Moved     = "Moved"     // its server has passed it on
	Stopped   = "Stopped"   // its server was stopped
	TakenOver = "TakenOver" // its server does not run any more
)

// Change is that a plane has gone from one server to another.
type Change struct {
	Plane    types.UID
	From, To string // names of servers
	At       time.Time
	Why      string
	// Silent is for how long nothing was heard of a server whose plane is taken over; 0: that is not known.
	Silent time.Duration
}

// gone is a server that does not run any more.
type gone struct {
	heard   time.Time // the last sign of life
	leaving bool      // it was stopped
}

// nameOf returns the name of a server with an ID.
func nameOf(id string) string {
	name, _, _ := strings.Cut(id, "/")
	return name
}

// take takes up what the log says of a plane, and returns what has changed by that; nil: no other server has it now. The caller holds mu.
func (o *Owners) take(plane types.UID, now record) *Change {
	was := o.planes[plane]
	now.last, now.since = was.last, was.since
	if was.server != now.server || was.rev == 0 != (now.rev == 0) {
		now.since = o.Clock.Now()
	}
	from := was.server
	switch {
	case now.server == "" && now.rev == 0: // it sleeps
		now.last = ""
	case now.server == "" && from != "":
		now.last = from
	case from == "":
		from = was.last
	}
	if now.server != "" {
		now.last = ""
	}
	o.planes[plane] = now
	if from == "" || from == deleted || now.server == "" || now.server == deleted || nameOf(from) == nameOf(now.server) {
		return nil
	}
	c := Change{Plane: plane, From: nameOf(from), To: nameOf(now.server), At: o.Clock.Now(), Why: Moved}
	switch {
	case was.server == "":
		c.Why = Stopped
	case o.servers[from] == nil || from == o.self.id() && !o.passing[plane]:
		c.Why = TakenOver
		if g, ok := o.gone[from]; ok {
			c.Silent = c.At.Sub(g.heard)
		}
	}
	o.forget(c.At)
	o.changes = append(o.changes, c)
	return &c
}

// passes says whether this server is about to pass a plane on.
func (o *Owners) passes(plane types.UID, is bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if is {
		o.passing[plane] = true
	} else {
		delete(o.passing, plane)
	}
}

// forget drops what is too old, or too much. The caller holds mu.
func (o *Owners) forget(now time.Time) {
	n := max(0, len(o.changes)+1-maxChanges)
	for n < len(o.changes) && now.Sub(o.changes[n].At) > remembered {
		n++
	}
	o.changes = slices.Delete(o.changes, 0, n)
}

// tell tells of a change if it is this server that does. One to which a plane is passed may have just started, and know nothing of what was.
func (o *Owners) tell(c *Change) {
	if c != nil && o.Went != nil && (c.Why == Moved && c.From == o.Name || c.Why != Moved && c.To == o.Name) {
		o.Went(*c)
	}
}

// went takes up that a server does not run any more; nil: it was not known. The caller holds mu.
func (o *Owners) went(id string, p *peer) {
	if p == nil {
		return
	}
	now := o.Clock.Now()
	for other, g := range o.gone {
		if now.Sub(g.heard) > remembered || len(o.gone) >= maxGone {
			delete(o.gone, other)
		}
	}
	o.gone[id] = gone{heard: p.heard, leaving: p.leaving}
}

// Changes returns how planes went from one server to another in the last hour, as far as this server has seen it, oldest first.
func (o *Owners) Changes() []Change {
	now := o.Clock.Now()
	o.mu.RLock()
	defer o.mu.RUnlock()
	n, _ := slices.BinarySearchFunc(o.changes, now.Add(-remembered), func(c Change, at time.Time) int { return c.At.Compare(at) })
	return slices.Clone(o.changes[n:])
}

// Known is a server as another one knows it.
type Known struct {
	Name string
	// Server is how to reach it; nil: it does not run, and was not stopped.
	Server  *Server
	Leaving bool
	// Heard is when it gave the last sign of life, if it does not run.
	Heard time.Time
}

// Servers returns the servers that run, and those that have not been stopped and gave a sign of life in the last hour, by their names.
func (o *Owners) Servers() []Known {
	now := o.Clock.Now()
	byName := map[string]Known{}
	o.mu.RLock()
	for id, g := range o.gone {
		name := nameOf(id)
		if !g.leaving && now.Sub(g.heard) <= remembered && !g.heard.Before(byName[name].Heard) {
			byName[name] = Known{Name: name, Heard: g.heard}
		}
	}
	for _, p := range o.servers {
		if is := byName[p.Name]; is.Server == nil || is.Leaving {
			byName[p.Name] = Known{Name: p.Name, Server: p.Server, Leaving: p.leaving}
		}
	}
	o.mu.RUnlock()
	out := make([]Known, 0, len(byName))
	for _, k := range byName {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b Known) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Free is a plane that is to be awake, and that nobody has.
type Free struct {
	Plane types.UID
	Since time.Time
	// Last is the server that had it last; "": that is not known.
	Last string
}

// Grace is how long a plane may have no owner: so long it takes until the others take what a server had that has crashed.
const Grace = life + renewal

// Free returns the planes that nobody has for longer than Grace although they are to be awake.
func (o *Owners) Free() (out []Free) {
	now := o.Clock.Now()
	o.mu.RLock()
	defer o.mu.RUnlock()
	for uid, r := range o.planes {
		if r.rev == 0 || r.server == deleted || o.servers[r.server] != nil {
			continue
		}
		free := Free{Plane: uid, Since: r.since, Last: nameOf(cmp.Or(r.server, r.last))}
		if g, ok := o.gone[r.server]; ok && g.heard.After(free.Since) {
			free.Since = g.heard
		}
		if now.Sub(free.Since) > Grace {
			out = append(out, free)
		}
	}
	return out
}
