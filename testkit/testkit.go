package testkit

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// TB is what a Server needs of a test. A *testing.T, a *testing.B and Ginkgo's GinkgoT() have it.
type TB interface {
	Helper()
	Name() string
	Failed() bool
	Fatal(args ...any)
	Error(args ...any)
	Logf(format string, args ...any)
	Cleanup(func())
}

// Server is a control plane. Its Access is that of its administrator.
type Server struct {
	Access

	options  Options
	process  *process
	plane    string // its name below the root; "": it is the root of its process
	logged   int64  // where the log of the process was before
	client   *client
	webhooks *webhooks // nil: they are called where their configurations say
	kinds    kinds
	stop     func() error
}

// Start starts a server and stops it when the test ends. It fails the test if the server does not come up. If the test
// fails, what the server logged meanwhile is logged.
func Start(t TB, options ...Option) *Server {
	t.Helper()
	s, err := start(context.Background(), t.Name(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.explain(t)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// New is Start for TestMain and other programs that have no test at hand. Call Stop in the end.
func New(ctx context.Context, options ...Option) (*Server, error) { return start(ctx, "", options) }

// start starts a server whose plane is named after a test.
func start(ctx context.Context, test string, options []Option) (_ *Server, err error) {
	s := &Server{}
	for _, o := range options {
		o(&s.options)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("testkit: %w", err)
		}
	}()
	if err := s.options.complete(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.timeout())
	defer cancel()
	if s.process, err = s.options.process(ctx); err != nil {
		return nil, err
	}
	s.logged = s.process.logged()
	var undo []func() error
	s.stop = sync.OnceValue(func() error {
		var first error
		for n := len(undo) - 1; n >= 0; n-- {
			if err := undo[n](); err != nil && first == nil {
				first = fmt.Errorf("testkit: %w", err)
			}
		}
		return first
	})
	defer func() {
		if err != nil {
			_ = s.stop() // err says more
		}
	}()
	if s.options.OwnProcess {
		s.Access = s.process.root
		undo = append(undo, s.process.end)
	} else {
		if s.plane, err = s.process.createPlane(ctx, test); err != nil {
			return nil, err
		}
		undo = append(undo, func() error { return s.process.deletePlane(s.plane) })
		if s.Access, err = s.process.planeAccess(ctx, s.plane); err != nil {
			return nil, err
		}
	}
	if s.client, err = s.Access.client(); err != nil {
		return nil, err
	}
	undo = append(undo, func() error { s.client.CloseIdleConnections(); return nil })
	if s.options.UseWebhooks {
		if s.webhooks, err = newWebhooks(); err != nil {
			return nil, err
		}
		undo = append(undo, s.webhooks.Close)
		s.webhooks.serve(s.options.Webhooks)
	}
	if err := s.install(ctx, s.options.Install); err != nil {
		return nil, s.process.explained(err)
	}
	return s, nil
}

// Stop deletes the control plane; one with a process of its own ends with it. Further calls return the same.
func (s *Server) Stop() error { return s.stop() }

// ServeWebhooks serves the webhooks of the server by a handler from now on, in the place of an earlier one. Until there is
// one, the server's calls wait, at most until the webhook's timeout. The server needs the option Webhooks.
func (s *Server) ServeWebhooks(h http.Handler) error {
	if s.webhooks == nil {
		return errNoWebhooks
	}
	s.webhooks.serve(h)
	return nil
}

// maxExplained is how many lines of the log are shown of a failed test.
const maxExplained = 50

// explain logs what the process logged since the server started.
func (s *Server) explain(t TB) {
	t.Helper()
	if n := s.webhooks.unanswered(); n > 0 {
		t.Logf("testkit: %d calls of webhooks got no handler: start the manager, or call ServeWebhooks", n)
	}
	var own []string
	for _, line := range s.process.logSince(s.logged) {
		if _, of, ok := strings.Cut(line, " plane="); ok && s.plane != "" && of != s.plane && !strings.HasPrefix(of, s.plane+" ") {
			continue // another test's
		}
		own = append(own, line)
	}
	if more := len(own) - maxExplained; more > 0 {
		own = append([]string{fmt.Sprintf("(%d lines before)", more)}, own[more:]...)
	}
	if len(own) > 0 {
		t.Logf("testkit: the log of kanzen since the test began:\n%s", strings.Join(own, "\n"))
	}
}
