package debug

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"
)

// Check is one named condition of the server's health.
type Check struct {
	Name string
	// Group is what the check is excluded by, too; "": only by its name.
	Group string
	// Test returns an error if the condition does not hold.
	Test func(ctx context.Context) error
}

// Health serves /healthz, /livez and /readyz.
type Health struct {
	Log *slog.Logger
	// Checked is called with the result of each check.
	Checked func(name, kind string, ok bool)
	// Healthz and Live fail if only a restart helps, Ready if the server should get no requests.
	Healthz, Live, Ready []Check
}

// NotReady returns the reason why the server should get no requests, or nil.
func (h *Health) NotReady(ctx context.Context) error {
	for _, c := range h.Ready {
		if err := c.Test(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return nil
}

// Serve serves the three paths and those below them; it returns false for any other path.
func (h *Health) Serve(w http.ResponseWriter, r *http.Request) bool {
	root, name, below := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if below && name == "" {
		return false
	}
	var checks []Check
	switch root {
	case "healthz":
		checks = h.Healthz
	case "livez":
		checks = h.Live
	case "readyz":
		checks = h.Ready
	default:
		return false
	}
	if name == "" {
		h.serveAll(w, r, root, checks)
		return true
	}
	for _, c := range checks {
		if c.Name == name {
			h.serveOne(w, r, c)
			return true
		}
	}
	return false
}

func (h *Health) serveOne(w http.ResponseWriter, r *http.Request, c Check) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if err := c.Test(r.Context()); err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "internal server error: %v\n", err)
		return
	}
	_, _ = w.Write([]byte("ok"))
}

func (h *Health) serveAll(w http.ResponseWriter, r *http.Request, root string, checks []Check) {
	excluded := map[string]bool{}
	for _, v := range r.URL.Query()["exclude"] {
		for _, name := range strings.Split(v, ",") {
			excluded[name] = true
		}
	}
	var text bytes.Buffer
	var failed []string
	unknown := maps.Clone(excluded)
	for _, c := range checks {
		if excluded[c.Name] {
			delete(unknown, c.Name)
			fmt.Fprintf(&text, "[+]%s excluded: ok\n", c.Name)
			continue
		}
		if c.Group != "" && excluded[c.Group] {
			delete(unknown, c.Group)
			fmt.Fprintf(&text, "[+]%s excluded with %s: ok\n", c.Name, c.Group)
			continue
		}
		err := c.Test(r.Context())
		h.Checked(c.Name, root, err == nil)
		if err != nil {
			// The reason is only logged, because anyone may request health.
			fmt.Fprintf(&text, "[-]%s failed: reason withheld\n", c.Name)
			failed = append(failed, fmt.Sprintf("%s: %v", c.Name, err))
			continue
		}
		fmt.Fprintf(&text, "[+]%s ok\n", c.Name)
	}
	if len(unknown) > 0 {
		var names []string
		for _, n := range slices.Sorted(maps.Keys(unknown)) {
			names = append(names, fmt.Sprintf("%q", n))
		}
		fmt.Fprintf(&text, "warn: some health checks cannot be excluded: no matches for %s\n", strings.Join(names, ","))
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if len(failed) > 0 {
		h.Log.Info("unhealthy", "path", root, "failed", failed)
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

// Paths returns the paths of all checks.
func (h *Health) Paths() []string {
	out := []string{"/healthz", "/livez", "/readyz"}
	for _, c := range h.Healthz {
		out = append(out, "/healthz/"+c.Name)
	}
	for _, c := range h.Live {
		out = append(out, "/livez/"+c.Name)
	}
	for _, c := range h.Ready {
		out = append(out, "/readyz/"+c.Name)
	}
	return out
}

// After returns a Check that succeeds until a time, and then behaves like c.
func (c Check) After(t time.Time, clk clock.PassiveClock) Check {
	return Check{Name: c.Name, Group: c.Group, Test: func(ctx context.Context) error {
		if !clk.Now().After(t) {
			return nil
		}
		return c.Test(ctx)
	}}
}
