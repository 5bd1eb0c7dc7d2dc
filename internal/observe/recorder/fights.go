package recorder

import (
	"cmp"
	"slices"
	"time"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// Fight is a field that several writers set in turns.
type Fight struct {
	Path    string   `json:"path"`
	Writers []string `json:"writers"`
	// Turns is how often the field went from one writer to another, as far as it is remembered.
	Turns int       `json:"turns"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// fightFrom is the number of turns from which writers are said to fight. Two who set a field once each make one turn.
const fightFrom = 3

// Fights finds the fields of an object for which writers fight, the worst first.
func Fights(entries []v1alpha1.HistoryEntry) []Fight {
	type state struct {
		Fight
		last string
	}
	fields := map[string]*state{}
	for n := range entries {
		e := &entries[n]
		if e.Operation != "Updated" {
			continue
		}
		by := Writer(e)
		for _, f := range e.Fields {
			s := fields[f.Path]
			if s == nil {
				s = &state{Fight: Fight{Path: f.Path, First: e.First.Time}, last: by}
				fields[f.Path] = s
			}
			if s.last != by {
				s.Turns++
				s.last = by
			}
			if !slices.Contains(s.Writers, by) {
				s.Writers = append(s.Writers, by)
			}
			s.Last = e.Last.Time
		}
	}
	var out []Fight
	for _, s := range fields {
		if s.Turns >= fightFrom {
			slices.Sort(s.Writers)
			out = append(out, s.Fight)
		}
	}
	slices.SortFunc(out, func(a, b Fight) int { return cmp.Or(cmp.Compare(b.Turns, a.Turns), cmp.Compare(a.Path, b.Path)) })
	return out
}

// Writer names who made an entry: the user and the program.
func Writer(e *v1alpha1.HistoryEntry) string {
	s := who(e.User, e.Impersonated)
	if e.UserAgent != "" {
		s += " with " + Program(e.UserAgent)
	}
	return s
}

// Program is the part of a user agent that names the program.
func Program(agent string) string {
	for n := range len(agent) {
		if agent[n] == ' ' {
			return agent[:n]
		}
	}
	return agent
}
