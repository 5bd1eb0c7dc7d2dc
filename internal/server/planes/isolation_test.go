package planes

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
)

// What its administrator may see and do in a plane is of that plane: nothing of the process, of the root or of others.
func TestNothingOfOthers(t *testing.T) {
	g := start(t, settings(t.TempDir()))
	g.create(t, "one", PlaneSpec{})
	g.create(t, "neighbour", PlaneSpec{})
	g.must(t, "neighbour", "POST", configMaps, `{"metadata":{"name":"c"}}`, nil)
	for _, path := range []string{"/debug/pprof/heap", "/debug/flags/v", "/snapshot", "/console/", "/planes/neighbour/api", "/apis/" + Group + "/" + Version + "/planes",
		"/apis/flightrecorder.kanzen.io/v1alpha1/requests"} {
		if code, answer := g.ask(t, "one", "one", "GET", path, ""); code != http.StatusNotFound {
			t.Errorf("%s: %d %.200s", path, code, answer)
		}
	}
	for _, path := range []string{"/metrics", "/metrics/slis", "/flagz", "/", "/api/v1/namespaces", "/api/v1/namespaces/" + Namespace + "/secrets", "/readyz?verbose"} {
		code, answer := g.ask(t, "one", "one", "GET", path, "")
		if code != http.StatusOK {
			t.Errorf("%s: %d, so that it says nothing", path, code)
		}
		for _, word := range []string{"neighbour", "planetemplates", "/planes/", Namespace + "\"", "kanzen_plane", "process_resident", "go_memstats", "data-dir"} {
			if strings.Contains(answer, word) {
				t.Errorf("%s says %q", path, word)
			}
		}
	}
	g.must(t, "one", "POST", configMaps, `{"metadata":{"name":"c"}}`, nil)
	code, answer := g.ask(t, "one", "one", "PUT", configMaps+"/c", `{"metadata":{"name":"c","uid":"another"}}`)
	if code != http.StatusConflict || !strings.Contains(answer, "Key: /registry/configmaps/default/c,") {
		t.Errorf("another object's update: %d %s", code, answer)
	}
}

// Tokens and certificates of a plane say nothing in another one and in the root.
func TestCredentialsOfOthers(t *testing.T) {
	g := start(t, settings(t.TempDir()))
	tokens := map[string]string{}
	for _, name := range []string{"one", "neighbour"} {
		g.create(t, name, PlaneSpec{})
		g.must(t, name, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"all"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io",
			"kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"ServiceAccount","name":"default","namespace":"default"}]}`, nil)
		var r authenticationv1.TokenRequest
		g.must(t, name, "POST", "/api/v1/namespaces/default/serviceaccounts/default/token", `{}`, &r)
		tokens[name] = r.Status.Token
	}
	for name, token := range tokens {
		for _, at := range []string{"/planes/one", "/planes/neighbour", ""} {
			own := at == "/planes/"+name
			code := g.withToken(t, token, at+"/api/v1/secrets")
			for own && code == http.StatusForbidden { // the binding takes effect a moment after it was written
				code = g.withToken(t, token, at+"/api/v1/secrets")
			}
			if own != (code == http.StatusOK) || !own && code != http.StatusUnauthorized {
				t.Errorf("the token of %s at %q: %d", name, at, code)
			}
		}
	}
}

// withToken asks the root's port with a token.
func (g *ground) withToken(t *testing.T, token, path string) int {
	r := httptest.NewRequest(http.MethodGet, "https://root"+path, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	g.front.ServeHTTP(w, r.WithContext(t.Context()))
	return w.Code
}

// What is no name of a plane is not asked of the root, which would be asked as the server itself; and who asks to be watched keeps no seat
// only where there is something to watch.
func TestOddPaths(t *testing.T) {
	g := start(t, settings(t.TempDir()))
	for _, path := range []string{"/planes/%3Fwatch=true/api", "/planes/%3F/api", "/planes/../api", "/planes/a%23/api", "/planes/A/api", "/planes/a.b/api"} {
		r := httptest.NewRequest(http.MethodGet, "https://root"+path, nil)
		if name, _ := g.route(r); name != "" {
			t.Errorf("%s is for the plane %q", path, name)
		}
	}
	for target, want := range map[string]bool{
		"GET /api/v1/pods?watch=true": true, "GET /api/v1/pods?watch=1": true, "GET /api/v1/watch/pods": true, "GET /api/v1/nodes/n/proxy/x": true,
		"GET /api/v1/namespaces/a/pods/b/log?follow=true": true, "GET /api/v1/pods": false, "POST /api/v1/namespaces/a/pods?watch=true": false,
		"GET /api/v1/namespaces/proxy/pods": false, "GET /api/v1/namespaces/a/configmaps/proxy": false,
	} {
		method, path, _ := strings.Cut(target, " ")
		r := httptest.NewRequest(method, "https://root"+path, nil)
		r.Header.Set("Upgrade", "x")
		if got := longRunning(r); got != want {
			t.Errorf("%s is long-running: %v", target, got)
		}
	}
}

// A plane's webhook cannot reach what only this machine may.
func TestLocalConnections(t *testing.T) {
	asked := false
	local := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer local.Close()
	g := start(t, settings(t.TempDir()))
	g.create(t, "one", PlaneSpec{})
	g.must(t, "one", "POST", "/api/v1/nodes", `{"metadata":{"name":"n"}}`, nil)
	host, port, _ := strings.Cut(strings.TrimPrefix(local.URL, "http://"), ":")
	g.must(t, "one", "PATCH", "/api/v1/nodes/n/status?fieldManager=t&force=true", fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},
		"status":{"addresses":[{"type":"InternalIP","address":%q}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%s}}}}`, host, port), nil)
	for _, path := range []string{"/api/v1/nodes/n/proxy/", "/api/v1/nodes/n:" + port + "/proxy/", "/api/v1/nodes/http:n:" + port + "/proxy/"} {
		if code, answer := g.ask(t, "one", "one", "GET", path, ""); code < 400 || asked {
			t.Errorf("%s: %d %s, asked %v", path, code, answer, asked)
		}
	}
	g.must(t, "one", "POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", fmt.Sprintf(`{"metadata":{"name":"w"},"webhooks":[{"name":"w.example.com",
		"clientConfig":{"url":"https://%s:%s/"},"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}],
		"sideEffects":"None","admissionReviewVersions":["v1"],"failurePolicy":"Fail"}]}`, host, port), nil)
	if code, answer := g.ask(t, "one", "one", "POST", configMaps, `{"metadata":{"name":"c"}}`); code != http.StatusInternalServerError || !strings.Contains(answer, "not allowed") {
		t.Errorf("a write that a webhook on this machine judges: %d %s", code, answer)
	}
}

// Writes that wait for a webhook leave their seats to others: more of them than a plane has seats do not keep it from being read, nor
// from answering the webhook, which asks the plane.
func TestWebhookHangs(t *testing.T) {
	cfg := settings(t.TempDir())
	cfg.PlanesDialLocal = true
	g := start(t, cfg)
	g.create(t, "one", PlaneSpec{})
	asked, answer := make(chan struct{}), make(chan struct{})
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
			return
		}
		asked <- struct{}{}
		<-answer
		g.must(t, "one", "GET", "/api/v1/namespaces/default", "", nil)
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		_ = json.NewEncoder(w).Encode(&review)
	}))
	defer hook.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	for _, name := range []string{"a", "b"} { // which are asked at the same time
		g.must(t, "one", "POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", fmt.Sprintf(`{"metadata":{"name":%q},"webhooks":[{"name":"w.example.com",
			"clientConfig":{"url":%q,"caBundle":%q},"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}],
			"sideEffects":"None","admissionReviewVersions":["v1"],"failurePolicy":"Fail","timeoutSeconds":30}]}`, name, hook.URL, base64.StdEncoding.EncodeToString(ca)), nil)
	}
	seats := g.find("one").seats.Load()
	var writes sync.WaitGroup
	for n := range 2 * cap(seats.taken) {
		writes.Go(func() { g.must(t, "one", "POST", configMaps, fmt.Sprintf(`{"metadata":{"name":"c%d"}}`, n), nil) })
	}
	for range 2 * 2 * cap(seats.taken) {
		<-asked
	}
	g.must(t, "one", "GET", "/api/v1/namespaces", "", nil)
	close(answer)
	writes.Wait()
	if n := len(seats.taken); n != 0 {
		t.Errorf("%d seats are taken", n)
	}
}

// A seat is given back once, in whatever order its request leaves it, comes back and ends.
func TestSeat(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, steps := range map[string][]func(*seat){
		"ends":                   {(*seat).stand},
		"waits and ends":         {(*seat).Leave, (*seat).Return, (*seat).stand},
		"waits for two":          {(*seat).Leave, (*seat).Leave, (*seat).Return, (*seat).Return, (*seat).stand},
		"ends while it waits":    {(*seat).Leave, (*seat).stand, (*seat).Return},
		"ends twice":             {(*seat).stand, (*seat).stand},
		"ends, and waits":        {(*seat).stand, (*seat).Leave, (*seat).Return, (*seat).stand},
		"is over while it waits": {(*seat).Leave, func(s *seat) { s.of.taken <- struct{}{}; cancel(); s.Return(); <-s.of.taken }, (*seat).stand},
	} {
		all := &seats{taken: make(chan struct{}, 1)}
		s := all.sit(ctx)
		for _, step := range steps {
			step(s)
		}
		if n := len(all.taken); n != 0 || all.away.Load() != 0 {
			t.Errorf("%s: %d seats are taken, %d requests away", name, n, all.away.Load())
		}
	}
}

// Only so many requests leave their seats at a time. The next one stays in its own.
func TestSeatsLeft(t *testing.T) {
	all := &seats{taken: make(chan struct{}, 1)}
	var away []*seat
	for range abroad {
		s := all.sit(t.Context())
		s.Leave()
		away = append(away, s)
	}
	last := all.sit(t.Context())
	if last.Leave(); len(all.taken) != 1 {
		t.Error("more requests leave their seats than may")
	}
	last.Return()
	last.stand()
	for _, s := range away {
		s.Return()
		s.stand()
	}
	if len(all.taken) != 0 || all.away.Load() != 0 {
		t.Errorf("%d seats are taken, %d requests away", len(all.taken), all.away.Load())
	}
}

// A plane that is flooded does not keep others from being answered: each has seats of its own.
func TestFlood(t *testing.T) {
	g := start(t, settings(t.TempDir()))
	g.create(t, "one", PlaneSpec{})
	g.create(t, "neighbour", PlaneSpec{})
	g.administrator(t, "one")
	ctx, cancel := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	for range 200 {
		flood.Go(func() {
			for ctx.Err() == nil {
				g.ask(t, "one", "one", "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "")
			}
		})
	}
	for range 20 {
		g.must(t, "neighbour", "GET", "/api/v1/namespaces", "", nil)
	}
	cancel()
	flood.Wait()
}
