package extension

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Subresource is a path below an object's which a func of the author answers, with whatever it likes: a document, a
// stream, a connection that changes its protocol.
type Subresource[T any] struct {
	// Name is the last segment of the path.
	Name string
	// Doc describes it in OpenAPI.
	Doc string
	// Verbs are what users may do: get (GET), create (POST), update (PUT), patch, delete; none: get.
	Verbs []string
	// MustCreate asks for the right to create, whatever the verb: a websocket is opened by GET, but permission to read
	// is not meant to give a shell.
	MustCreate bool
	// Behind: the func also answers for the paths below, as proxies do.
	Behind bool
	// Connect answers a request; obj is the object as it is now. An error is what the client gets as a Status, unless
	// something was written. A request ends after a minute, unless it has changed its protocol (Upgrade) or the name is
	// one of those from which servers expect streams: attach, exec, log, portforward, proxy.
	Connect func(w http.ResponseWriter, r *http.Request, obj *T) error
}

// UserOf returns the user of a request that Subresource.Connect answers, as the host cluster knows it.
func UserOf(ctx context.Context) user.Info { return request.UserFrom(ctx) }

// connect is a Subresource without its type.
type connect struct {
	catalog.Connect
	mustCreate bool
	answer     func(w http.ResponseWriter, r *http.Request, obj engine.Object) error
}

// untyped leaves out the type; stored returns an object in the version of T.
func (s Subresource[T]) untyped(stored func(engine.Object) (engine.Object, error)) connect {
	c := connect{Connect: catalog.Connect{Name: s.Name, Doc: s.Doc, Verbs: slices.Sorted(slices.Values(s.Verbs)), Behind: s.Behind}, mustCreate: s.MustCreate}
	if len(c.Verbs) == 0 {
		c.Verbs = []string{"get"}
	}
	if s.Connect != nil {
		c.answer = func(w http.ResponseWriter, r *http.Request, obj engine.Object) error {
			obj, err := stored(obj)
			if err != nil {
				return err
			}
			var typed *T
			if err := into(&typed, obj); err != nil {
				return err
			}
			return s.Connect(w, r, typed)
		}
	}
	return c
}

// connect adds a subresource to a kind.
func (k *kind) connect(c connect) error {
	taken := c.Name == "status" || c.Name == "scale" || slices.ContainsFunc(k.connects, func(o connect) bool { return o.Name == c.Name })
	switch {
	case len(validation.IsDNS1123Label(c.Name)) > 0:
		return fmt.Errorf("subresource %q: the name is not a label", c.Name)
	case taken:
		return fmt.Errorf("subresource %s: the name is taken", c.Name)
	case c.answer == nil:
		return fmt.Errorf("subresource %s: it has no Connect", c.Name)
	}
	for n, verb := range c.Verbs {
		if !slices.Contains([]string{"get", "create", "update", "patch", "delete"}, verb) || slices.Contains(c.Verbs[:n], verb) {
			return fmt.Errorf("subresource %s: the verb %q", c.Name, verb)
		}
	}
	k.connects = append(k.connects, c)
	return nil
}

// described is what OpenAPI documents say of the subresources.
func (k *kind) described() []catalog.Connect {
	var out []catalog.Connect
	for n := range k.connects {
		out = append(out, k.connects[n].Connect)
	}
	return out
}

// subresource is the subresource as an engine serves it.
func (c *connect) subresource() *engine.Subresource {
	return &engine.Subresource{Name: c.Name, Verbs: c.Verbs, MustCreate: c.mustCreate, Behind: c.Behind,
		Answer: func(w http.ResponseWriter, r *http.Request, obj engine.Object) error {
			a := &answer{ResponseWriter: w}
			err := c.answer(a, r, obj)
			if err != nil && a.begun {
				panic(http.ErrAbortHandler) // what there is of the answer must not be taken for all of it
			}
			return err
		}}
}

// answer knows whether the answer has begun.
type answer struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader is part of http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	a.begun = a.begun || code >= http.StatusOK
	a.ResponseWriter.WriteHeader(code)
}

// Write is part of http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(b)
}

// Flush is part of http.Flusher.
func (a *answer) Flush() {
	a.begun = true
	_ = http.NewResponseController(a.ResponseWriter).Flush() // a failure shows at the next write
}

// Hijack is part of http.Hijacker.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := http.NewResponseController(a.ResponseWriter).Hijack()
	a.begun = a.begun || err == nil
	return conn, buffer, err
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
