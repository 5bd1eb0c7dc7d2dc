package server

import (
	"github.com/kanzen-io/kanzen/internal/access/authn"
	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/base/version"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/observe/console"
)

// This file wires the page at /console.

// consolePage is the page at /console; it is nil if there is none.
type consolePage struct{ *console.Console }

// console makes the page. It shows what the flight recorder knows, so without one there is none.
func (b *base) console(f flight, space bool) consolePage {
	if !b.root.Console || f.Recorder == nil {
		return consolePage{}
	}
	c := console.Config{Clock: b.process.Clock, WriteError: engine.RefuseRequest, Version: "kanzen " + version.Kanzen + ", Kubernetes " + b.cfg.VersionInfo().GitVersion}
	if space {
		c.Space = snapshot.SpacePath
	}
	return consolePage{console.New(c)}
}

// consolePaths are those of the page; none if there is none.
func (b *base) consolePaths() []string {
	if !b.root.Console || b.root.FlightRecorderMemory == 0 {
		return nil
	}
	return console.Paths()
}

func (p consolePage) filter() chain.Filter {
	if p.Console == nil {
		return nil
	}
	return p.Filter
}

func (p consolePage) authenticator(next authn.Authenticator) authn.Authenticator {
	if p.Console == nil {
		return next
	}
	return console.Authenticator{Console: p.Console, Next: next}
}

func (p consolePage) authorizer(next authz.Authorizer) authz.Authorizer {
	if p.Console == nil {
		return next
	}
	return console.Authorizer{Next: next}
}
