package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kanzen-io/kanzen/internal/store"
)

// check is one named condition of the server's health.
type check struct {
	name string
	test func(ctx context.Context) error
}

// milestone is a step of starting up that is done once.
type milestone struct{ done atomic.Bool }

func (m *milestone) set() { m.done.Store(true) }

func (m *milestone) test(context.Context) error {
	if m.done.Load() {
		return nil
	}
	return errors.New("not finished")
}

// health is what /healthz, /livez and /readyz answer from.
type health struct {
	log *slog.Logger
	// checked is told the outcome of each check.
	checked func(name, kind string, ok bool)
	// live fails when only a restart helps; ready when no requests should come.
	live, ready []check
}

// etcdTimeout bounds the question whether etcd is there.
const etcdTimeout = 2 * time.Second

func newHealth(log *slog.Logger, st *store.Store, m *milestones, stopping <-chan struct{}, checked func(name, kind string, ok bool)) *health {
	etcd := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
		defer cancel()
		return st.Ping(ctx)
	}
	ok := func(context.Context) error { return nil }
	common := []check{{"ping", ok}, {"log", ok}, {"etcd", etcd}}
	// Names are kube-apiserver's for the same steps.
	started := []check{
		{"poststarthook/start-system-namespaces-controller", m.namespaces.test},
		{"poststarthook/rbac/bootstrap-roles", m.roles.test},
		{"poststarthook/scheduling/bootstrap-system-priority-classes", m.priorityClasses.test},
		{"poststarthook/priority-and-fairness-config-producer", m.flowControl.test},
		{"poststarthook/priority-and-fairness-config-consumer", m.flowConsumer.test},
		{"poststarthook/priority-and-fairness-filter", ok},
		{"poststarthook/bootstrap-controller", m.kubernetesService.test},
		{"poststarthook/start-kubernetes-service-cidr-controller", m.serviceCIDR.test},
		{"poststarthook/start-cluster-authentication-info-controller", m.authenticationInfo.test},
		{"poststarthook/start-kube-apiserver-identity-lease-controller", m.identity.test},
		{"poststarthook/start-legacy-token-tracking-controller", m.tokenTracking.test},
		{"poststarthook/crd-informer-synced", m.definitions.test},
	}
	h := &health{log: log, checked: checked}
	h.live = append(append(h.live, common...), started...)
	h.ready = append(h.ready, common...)
	h.ready = append(h.ready, check{"etcd-readiness", etcd}, check{"informer-sync", m.authorizer.test})
	h.ready = append(h.ready, started...)
	h.ready = append(h.ready, check{"shutdown", func(context.Context) error {
		select {
		case <-stopping:
			return errors.New("process is shutting down")
		default:
			return nil
		}
	}})
	return h
}

// notReady is why no requests should come; nil: they may.
func (h *health) notReady(ctx context.Context) error {
	for _, c := range h.ready {
		if err := c.test(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// milestones are the steps of starting up.
type milestones struct {
	namespaces, roles, priorityClasses, flowControl, flowConsumer, kubernetesService, serviceCIDR, authenticationInfo, identity, tokenTracking, authorizer, definitions milestone
}

// serve answers below one of the three paths; false: it is none of them.
func (h *health) serve(w http.ResponseWriter, r *http.Request) bool {
	root, name, below := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if below && name == "" {
		return false
	}
	var checks []check
	switch root {
	case "healthz", "livez":
		checks = h.live
	case "readyz":
		checks = h.ready
	default:
		return false
	}
	if name == "" {
		h.serveAll(w, r, root, checks)
		return true
	}
	for _, c := range checks {
		if c.name == name {
			h.serveOne(w, r, c)
			return true
		}
	}
	return false
}

func (h *health) serveOne(w http.ResponseWriter, r *http.Request, c check) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if err := c.test(r.Context()); err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "internal server error: %v\n", err)
		return
	}
	_, _ = w.Write([]byte("ok"))
}

func (h *health) serveAll(w http.ResponseWriter, r *http.Request, root string, checks []check) {
	excluded := map[string]bool{}
	for _, v := range r.URL.Query()["exclude"] {
		for _, name := range strings.Split(v, ",") {
			excluded[name] = true
		}
	}
	var text bytes.Buffer
	var failed []string
	for _, c := range checks {
		if excluded[c.name] {
			delete(excluded, c.name)
			fmt.Fprintf(&text, "[+]%s excluded: ok\n", c.name)
			continue
		}
		err := c.test(r.Context())
		h.checked(c.name, root, err == nil)
		if err != nil {
			// The reason is for the log: anybody may ask for health.
			fmt.Fprintf(&text, "[-]%s failed: reason withheld\n", c.name)
			failed = append(failed, fmt.Sprintf("%s: %v", c.name, err))
			continue
		}
		fmt.Fprintf(&text, "[+]%s ok\n", c.name)
	}
	if len(excluded) > 0 {
		var names []string
		for n := range excluded {
			names = append(names, fmt.Sprintf("%q", n))
		}
		fmt.Fprintf(&text, "warn: some health checks cannot be excluded: no matches for %s\n", strings.Join(names, ","))
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if len(failed) > 0 {
		h.log.Info("unhealthy", "path", root, "failed", failed)
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "%s%s check failed\n", text.String(), root)
		return
	}
	if _, verbose := r.URL.Query()["verbose"]; !verbose {
		_, _ = w.Write([]byte("ok"))
		return
	}
	fmt.Fprintf(w, "%s%s check passed\n", text.String(), root)
}

// paths are those of all checks.
func (h *health) paths() []string {
	out := []string{"/healthz", "/livez", "/readyz"}
	for _, c := range h.live {
		out = append(out, "/healthz/"+c.name, "/livez/"+c.name)
	}
	for _, c := range h.ready {
		out = append(out, "/readyz/"+c.name)
	}
	return out
}
