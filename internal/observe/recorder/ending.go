package recorder

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/request"
)

// maxEnding bounds the clients whose credentials end soon. What comes later is not told.
const maxEnding = 1000

// EndingCredential is a credential that ends soon, and whose client has not taken another.
type EndingCredential struct {
	User, UserAgent, SourceIP string
	request.Credential
	Requests int64
	Last     time.Time
}

// endings are the credentials that end soon.
type endings struct {
	mu  sync.Mutex
	all map[endingKey]*EndingCredential // guarded by mu
}

// endingKey tells apart what is renewed by itself: the same program may run as many users, and a user's credential may be in many places.
type endingKey struct{ user, agent, address, kind string }

// saw notes with what a request has authenticated. Most credentials have time, and cost a comparison. What counts is when the request
// came: a watch may end long after its client has taken another credential.
func (e *endings) saw(l *request.Latency, req *http.Request) {
	c, at := l.Credential(), request.ReceivedFrom(req.Context())
	if c == nil || !c.Ending(at) {
		return
	}
	u, _ := l.Users()
	if u == nil || u.GetName() == user.Anonymous {
		return
	}
	k := endingKey{shared(u.GetName(), maxUser), shared(req.UserAgent(), maxAgent), shared(address(req.RemoteAddr), maxID), c.Kind}
	e.mu.Lock()
	defer e.mu.Unlock()
	of := e.all[k]
	if of == nil || of.Credential != *c {
		if of == nil && len(e.all) >= maxEnding {
			return
		}
		of = &EndingCredential{User: k.user, UserAgent: k.agent, SourceIP: k.address, Credential: *c}
		e.all[k] = of
	}
	of.Requests++
	if at.After(of.Last) {
		of.Last = at
	}
}

// EndingCredentials returns the credentials that end soon and were used since a time, the one that ends first before the others. It
// forgets those that were not.
func (r *Recorder) EndingCredentials(since time.Time) []EndingCredential {
	r.ending.mu.Lock()
	defer r.ending.mu.Unlock()
	maps.DeleteFunc(r.ending.all, func(_ endingKey, c *EndingCredential) bool { return c.Last.Before(since) })
	out := make([]EndingCredential, 0, len(r.ending.all))
	for _, c := range r.ending.all {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b EndingCredential) int {
		return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.User, b.User), cmp.Compare(a.UserAgent, b.UserAgent), cmp.Compare(a.SourceIP, b.SourceIP))
	})
	return out
}
