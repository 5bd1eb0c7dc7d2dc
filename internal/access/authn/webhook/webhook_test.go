package webhook

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/user"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/access/authn"
	"github.com/kanzen-io/kanzen/internal/wire/remote"
	"github.com/kanzen-io/kanzen/internal/wire/remote/remotetest"
)

// hook responds with a status and records the reviews.
type hook struct {
	status string
	code   int
	asked  []map[string]any
}

func (h *hook) authenticator(t *testing.T, version string) *Authenticator {
	t.Helper()
	client, err := remote.FromKubeconfig(remotetest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		var in map[string]any
		_ = json.NewDecoder(r.Body).Decode(&in)
		h.asked = append(h.asked, in)
		if h.code != 0 {
			w.WriteHeader(h.code)
			return
		}
		_, _ = w.Write([]byte(`{"status":` + h.status + `}`))
	}), time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Authenticator{Client: client, Version: version, Implicit: []string{"api"},
		Retry: remote.Retry{Attempts: 1}, Log: slog.New(slog.DiscardHandler)}
}

func TestAuthenticateToken(t *testing.T) {
	known := &user.DefaultInfo{Name: "u", UID: "1", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}
	const yes = `"authenticated":true,"user":{"username":"u","uid":"1","groups":["g"],"extra":{"k":["v"]}}`
	for _, c := range []struct {
		name, status string
		code         int
		audiences    []string
		want         *authn.Response
		fails        bool
	}{
		{"known", `{` + yes + `}`, 0, []string{"api", "x"}, &authn.Response{User: known, Audiences: []string{"api"}}, false},
		{"known for an audience", `{` + yes + `,"audiences":["x","y"]}`, 0, []string{"api", "x"}, &authn.Response{User: known, Audiences: []string{"x"}}, false},
		{"known for others", `{` + yes + `,"audiences":["y"]}`, 0, []string{"api"}, nil, false},
		{"not for the implicit audience", `{` + yes + `}`, 0, []string{"x"}, nil, false},
		{"no audiences asked", `{` + yes + `}`, 0, nil, &authn.Response{User: known}, false},
		{"unknown", `{}`, 0, []string{"api"}, nil, false},
		{"error", `{"error":"broken"}`, 0, []string{"api"}, nil, true},
		{"failure", ``, 403, []string{"api"}, nil, true},
	} {
		for _, version := range []string{"v1", "v1beta1"} {
			h := &hook{status: c.status, code: c.code}
			got, err := h.authenticator(t, version).AuthenticateToken(t.Context(), "T", c.audiences)
			if !reflect.DeepEqual(got, c.want) || (err != nil) != c.fails {
				t.Errorf("%s, %s: %v, %v", c.name, version, got, err)
			}
			if in := h.asked[0]; in["apiVersion"] != "authentication.k8s.io/"+version || in["spec"].(map[string]any)["token"] != "T" {
				t.Errorf("%s: sent %v", version, in)
			}
		}
	}
}

func TestRemembering(t *testing.T) {
	h := &hook{status: `{"authenticated":true,"user":{"username":"u"}}`}
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	c := authn.Cached(h.authenticator(t, "v1"), authn.CacheConfig{Success: time.Minute, Failure: time.Minute, Clock: clk,
		Metrics: authn.NewCacheMetrics(prometheus.NewRegistry())})
	ask := func(token string, audiences []string, want int) {
		t.Helper()
		h.asked = nil
		_, _ = c.AuthenticateToken(t.Context(), token, audiences)
		if len(h.asked) != want {
			t.Errorf("%s: asked %d times, want %d", token, len(h.asked), want)
		}
	}
	ask("a", []string{"api"}, 1)
	ask("a", []string{"api"}, 0)
	ask("a", []string{"other"}, 1)
	ask("aa", []string{"pi"}, 1)
	h.status = `{}`
	ask("b", []string{"api"}, 1)
	ask("b", []string{"api"}, 0)
	h.code = 403
	ask("c", []string{"api"}, 1)
	ask("c", []string{"api"}, 1)
	clk.Step(2 * time.Minute)
	ask("a", []string{"api"}, 1)
}

type panicking struct{}

func (panicking) AuthenticateToken(context.Context, string, []string) (*authn.Response, error) {
	panic("x")
}

func TestPanicIsAnError(t *testing.T) {
	c := authn.Cached(panicking{}, authn.CacheConfig{Clock: clocktesting.NewFakeClock(time.Unix(0, 0)), Metrics: authn.NewCacheMetrics(prometheus.NewRegistry())})
	if u, err := c.AuthenticateToken(t.Context(), "a", nil); u != nil || err == nil {
		t.Errorf("%v, %v", u, err)
	}
}
