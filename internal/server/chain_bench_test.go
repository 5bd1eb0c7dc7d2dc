package server

import (
	"context"
	"encoding/json"
	"errors"
	"github.com/kanzen-io/kanzen/internal/process"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/process/config"
	authenticationv1 "k8s.io/api/authentication/v1"
)

// accountToken makes a service account that may read config maps, and a token of it.
func accountToken(t testing.TB, s *server) string {
	t.Helper()
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/"
	do(t, s, "POST", "/api/v1/namespaces/default/serviceaccounts", "application/json", "", []byte(`{"metadata":{"name":"reader"}}`), 201)
	do(t, s, "POST", rbac+"roles", "application/json", "", []byte(`{"metadata":{"name":"reader"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}]}`), 201)
	do(t, s, "POST", rbac+"rolebindings", "application/json", "", []byte(`{"metadata":{"name":"reader"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"reader"},"subjects":[{"kind":"ServiceAccount","name":"reader","namespace":"default"}]}`), 201)
	answer := do(t, s, "POST", "/api/v1/namespaces/default/serviceaccounts/reader/token", "application/json", "", []byte(`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","spec":{}}`), 201)
	var r authenticationv1.TokenRequest
	if err := json.Unmarshal(answer, &r); err != nil {
		t.Fatal(err)
	}
	return r.Status.Token
}

// BenchmarkWholeChain measures everything between a connection and the handlers, for a
// request with a service account's token that RBAC allows and that priority and
// fairness classifies, with an audit log that is written to a file. As under HTTP/2,
// each request has its own goroutine. There is one processor, because otherwise half
// of the result would be the cost of waking another one that finds nothing to do.
func BenchmarkWholeChain(b *testing.B) {
	for name, audited := range map[string]bool{"": false, "Audited": true} {
		b.Run("Chain"+name, func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			s := startWith(b, func(c *config.Config) {
				if audited {
					dir := b.TempDir()
					c.AuditPolicyFile, c.AuditLog.Path = filepath.Join(dir, "policy"), filepath.Join(dir, "log")
					if err := os.WriteFile(c.AuditPolicyFile, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
						b.Fatal(err)
					}
				}
			})
			token := accountToken(b, s)
			w := &discard{h: http.Header{}}
			r := httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/default/configmaps/none", nil)
			r.Header.Set("User-Agent", "bench/1")
			// A path that RBAC allows and that is not served costs little beyond the
			// chain.
			b.ReportAllocs()
			before := cpu(b)
			served := make(chan struct{})
			for b.Loop() {
				clear(w.h)
				r.Header["Authorization"] = []string{"Bearer " + token}
				go func() {
					s.handler.ServeHTTP(w, r)
					served <- struct{}{}
				}()
				<-served
			}
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
			if w.code != http.StatusNotFound {
				b.Fatal(w.code)
			}
		})
	}
}

// cpu returns the processor time of this process in nanoseconds. On a shared machine
// it is more reliable than a clock.
func cpu(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// startWith is start with other settings.
func startWith(t testing.TB, change func(*config.Config)) *server {
	t.Helper()
	cfg := config.Standalone()
	cfg.DataDir, cfg.UnsafeNoFsync, cfg.NoListener, cfg.Controllers = t.TempDir(), true, true, nil
	change(&cfg)
	on, plane := planeOf(t, &cfg, process.Given{})
	return running(t, plane, on.Close)
}

// openWith opens a process of settings.
func openWith(cfg *config.Config, given process.Given) (*process.Process, error) {
	root, _, err := cfg.Validate()
	if err != nil {
		return nil, err
	}
	return process.OpenWith(context.Background(), root, slog.New(slog.DiscardHandler), debug.NewVerbosity(0), given)
}

// planeOf makes a control plane, stopped, on a process of its own.
func planeOf(t testing.TB, cfg *config.Config, given process.Given) (*process.Process, *Plane) {
	t.Helper()
	on, err := openWith(cfg, given)
	if err != nil {
		t.Fatal(err)
	}
	return on, planeOn(t, cfg, on)
}

// planeOn makes a control plane, stopped, at the root of a process.
func planeOn(t testing.TB, cfg *config.Config, on *process.Process) *Plane {
	t.Helper()
	root, plane, err := cfg.Validate()
	if err != nil {
		t.Fatal(err)
	}
	own := *on
	own.Root = root
	return New(plane, &own, Seams{})
}

// running runs a control plane until the test ends, and calls closed after that. It
// returns its server when that is ready.
func running(t testing.TB, p *Plane, closed func() error) *server {
	t.Helper()
	t.Cleanup(func() {
		if err := errors.Join(p.Stop(), closed()); err != nil {
			t.Error(err)
		}
	})
	if err := p.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	return p.serving.Load()
}
