package crd

import (
	"slices"
	"time"

	"github.com/kanzen-io/kanzen/internal/store"
)

// State is what a definition costs now.
type State struct {
	Name, Group, Resource string
	Versions              []string // that are served
	Established           bool
	Bytes                 int      // of the definition
	Compiled              []string // versions whose schema was needed
	// What schemas have taken since the definition last changed: to be compiled, without their expressions, and to check so many objects,
	// with their expressions, which are compiled when they are first needed.
	Compiling, Checking time.Duration
	Checks              int64
	// View is what is in memory of its objects.
	View store.ViewState
}

// States returns the state of all definitions, sorted by name. It makes and loads nothing.
func (s *Server) States() []State {
	var out []State
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, g := range s.groups {
		for _, d := range g {
			st := State{Name: d.name, Group: d.group, Resource: d.accepted.Plural, Established: d.established}
			if d.item != nil {
				st.Bytes = d.item.Size()
			}
			for _, v := range d.versions {
				if v.served {
					st.Versions = append(st.Versions, v.name)
				}
			}
			if d.serving != nil {
				d.serving.state(&st)
			}
			out = append(out, st)
		}
	}
	slices.SortFunc(out, func(a, b State) int {
		switch {
		case a.Name < b.Name:
			return -1
		case a.Name > b.Name:
			return 1
		}
		return 0
	})
	return out
}

func (s *serving) state(st *State) {
	s.mu.Lock()
	for version := range s.schemas {
		st.Compiled = append(st.Compiled, version)
	}
	st.Compiling = s.compiling
	s.mu.Unlock()
	st.Checks, st.Checking = s.checks.Load(), time.Duration(s.checking.Load())
	slices.Sort(st.Compiled)
	if v := s.view(); v != nil {
		st.View = v.State()
	}
}
