package remote_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/wire/remote"
	"github.com/kanzen-io/kanzen/internal/wire/remote/remotetest"
)

type note struct {
	Text string `json:"text"`
}

func TestPost(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		code   int
		want   string // part of the error; empty: none
	}{
		{"answer", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer webhook-client" || r.URL.Path != "/review" || r.URL.Query().Get("timeout") != "5s" {
				t.Errorf("asked with %v at %v", r.Header, r.URL)
			}
			_, _ = w.Write([]byte(`{"text":"yes"}`))
		}, 200, ""},
		{"refusal", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret", http.StatusForbidden) }, 403, "unknown"},
		{"failure", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret", http.StatusInternalServerError) }, 500,
			`an error on the server ("unknown") has prevented the request from succeeding`},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/review" {
				t.Errorf("the redirect was followed to %s", r.URL.Path)
			}
			http.Redirect(w, r, "/secret", http.StatusTemporaryRedirect)
		}, 307, "the server responded with the status code 307 but did not return more information"},
		{"status", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(500)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","message":"secret","code":500}`))
		}, 500, "unknown"},
		{"garbage", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`<html>`)) }, 200, "cannot be read"},
		{"endless", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(strings.Repeat(" ", 4<<20)))
		}, 200, "longer than"},
	} {
		client, err := remote.FromKubeconfig(remotetest.Serve(t, c.answer), 5*time.Second, nil)
		if err != nil {
			t.Fatal(err)
		}
		var out note
		code, err := client.Post(t.Context(), note{"?"}, &out)
		switch {
		case code != c.code, (err == nil) != (c.want == ""), err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%s: %d, %v; want %d, %q", c.name, code, err, c.code, c.want)
		case c.code >= 400 && !strings.Contains(remote.Said(err), "secret"):
			t.Errorf("%s: the log learns %q", c.name, remote.Said(err))
		case err == nil && out.Text != "yes":
			t.Errorf("%s: answer %q", c.name, out.Text)
		}
	}
}

func TestNoKubeconfig(t *testing.T) {
	if _, err := remote.FromKubeconfig("/nowhere", 0, nil); err == nil {
		t.Error("a kubeconfig that does not exist was accepted")
	}
}

func TestRetry(t *testing.T) {
	passing, lasting := apierrors.NewInternalError(errors.New("x")), apierrors.NewUnauthorized("x")
	for _, c := range []struct {
		name   string
		errors []error
		calls  int
		fails  bool
	}{
		{"success", []error{nil}, 1, false},
		{"passes", []error{passing, nil}, 2, false},
		{"does not pass", []error{lasting, nil}, 1, true},
		{"does not pass in time", []error{passing, passing, passing, nil}, 3, true},
	} {
		calls := 0
		err := remote.Retry{Attempts: 3, Pause: time.Nanosecond, Factor: 1, Clock: clock.RealClock{}}.Do(t.Context(), func() error {
			calls++
			return c.errors[calls-1]
		})
		if calls != c.calls || (err != nil) != c.fails {
			t.Errorf("%s: %d calls, %v", c.name, calls, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (remote.Retry{Attempts: 3, Pause: time.Hour, Clock: clock.RealClock{}}).Do(ctx, func() error { return passing }); err == nil {
		t.Error("no error after the request ended")
	}
}

// pauses is a clock on which time passes at once, and which sums it up.
type pauses struct {
	clock.Clock
	all []time.Duration
}

func (p *pauses) After(d time.Duration) <-chan time.Time {
	p.all = append(p.all, d)
	now := make(chan time.Time, 1)
	now <- time.Time{}
	return now
}

// Pauses grow, have jitter, and follow the server's Retry-After.
func TestPauses(t *testing.T) {
	for _, c := range []struct {
		name   string
		fails  error
		random float64
		want   []time.Duration
	}{
		{"no luck", apierrors.NewInternalError(errors.New("x")), 0, []time.Duration{1000, 1500, 2250, 3375}},
		{"luck", apierrors.NewInternalError(errors.New("x")), 0.5, []time.Duration{1100, 1650, 2475, 3712}},
		{"asked", apierrors.NewTooManyRequests("x", 2), 0, []time.Duration{2000, 2000, 2250, 3375}},
		{"asked for ever", apierrors.NewTooManyRequests("x", 1<<30), 0, []time.Duration{60000, 60000, 60000, 60000}},
	} {
		p := &pauses{}
		r := remote.DefaultRetry(p)
		r.Pause, r.Random = time.Second, func() float64 { return c.random }
		_ = r.Do(t.Context(), func() error { return c.fails })
		for n := range p.all {
			p.all[n] /= time.Millisecond
		}
		if !slices.Equal(p.all, c.want) {
			t.Errorf("%s: %d, want %d milliseconds", c.name, p.all, c.want)
		}
	}
	p, calls := &pauses{}, 0
	r := remote.DefaultRetry(p)
	r.Passes = func(error) bool { return true }
	_ = r.Do(t.Context(), func() error { calls++; return apierrors.NewUnauthorized("x") })
	if calls != 5 {
		t.Errorf("%d attempts where every error may pass", calls)
	}
}
