package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/observe/console"
	"github.com/kanzen-io/kanzen/internal/process/config"
)

// visit is a request to the console.
type visit struct {
	method, path string
	user         user.Info // by other credentials; nil: none
	header       map[string]string
	cookie       string
}

func (v visit) at(s *server) *http.Response {
	r := httptest.NewRequest(v.method, v.path, nil)
	if v.user != nil {
		r = r.WithContext(inprocess.WithUser(r.Context(), v.user))
	}
	for name, value := range v.header {
		r.Header.Set(name, value)
	}
	if v.cookie != "" {
		r.AddCookie(&http.Cookie{Name: "__Secure-kanzen-console", Value: v.cookie})
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w.Result()
}

// signIn makes a session of a user by a one-time code, and returns its cookie and the code.
func signIn(t *testing.T, s *server, u user.Info) (cookie *http.Cookie, code string) {
	t.Helper()
	made := visit{method: "POST", path: "/console/codes", user: u}.at(s)
	var answer struct{ Code string }
	if err := json.NewDecoder(made.Body).Decode(&answer); err != nil || made.StatusCode != 200 || len(answer.Code) < 40 {
		t.Fatalf("a code: %d %v", made.StatusCode, err)
	}
	began := visit{method: "POST", path: "/console/session", header: map[string]string{"Kanzen-Console-Code": answer.Code}}.at(s)
	if began.StatusCode != 200 || len(began.Cookies()) != 1 {
		t.Fatalf("a session: %d %v", began.StatusCode, began.Cookies())
	}
	return began.Cookies()[0], answer.Code
}

var eve = &user.DefaultInfo{Name: "eve", Groups: []string{"system:authenticated"}}

// TestConsoleSession follows a session: its code works once, its cookie for reading the console's data and nothing else,
// and it is over when its user says so.
func TestConsoleSession(t *testing.T) {
	alone(t, testing.Short())
	s := start(t)
	cookie, code := signIn(t, s, masters)
	if !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/console" || cookie.Domain != "" {
		t.Errorf("the cookie is %v", cookie)
	}
	const list = "/console/data/requests"
	for _, c := range []struct {
		name string
		visit
		want int
	}{
		{"the code again", visit{method: "POST", path: "/console/session", header: map[string]string{"Kanzen-Console-Code": code}}, 401},
		{"a code that is none", visit{method: "POST", path: "/console/session", header: map[string]string{"Kanzen-Console-Code": "x"}}, 401},
		{"the code as a cookie", visit{method: "GET", path: list, cookie: code}, 401},
		{"the cookie as a code", visit{method: "POST", path: "/console/session", header: map[string]string{"Kanzen-Console-Code": cookie.Value}}, 401},
		{"no session", visit{method: "GET", path: list}, 401},
		{"data", visit{method: "GET", path: list, cookie: cookie.Value}, 200},
		{"who", visit{method: "GET", path: "/console/data/whoami", cookie: cookie.Value}, 200},
		{"a history", visit{method: "GET", path: "/console/data/history?resource=namespaces&name=default", cookie: cookie.Value}, 201},
		{"from its page", visit{method: "GET", path: list, cookie: cookie.Value, header: map[string]string{"Sec-Fetch-Site": "same-origin"}}, 200},
		{"from another site", visit{method: "GET", path: list, cookie: cookie.Value, header: map[string]string{"Sec-Fetch-Site": "cross-site"}}, 401},
		{"from another port", visit{method: "GET", path: list, cookie: cookie.Value, header: map[string]string{"Sec-Fetch-Site": "same-site"}}, 401},
		{"a write", visit{method: "POST", path: list, cookie: cookie.Value}, 404},
		{"a deletion", visit{method: "DELETE", path: list, cookie: cookie.Value}, 404},
		{"other data", visit{method: "GET", path: "/console/data/secrets", cookie: cookie.Value}, 404},
		{"a way out", visit{method: "GET", path: "/console/data/requests/../../../../api/v1/secrets", cookie: cookie.Value}, 404},
		{"an encoded way out", visit{method: "GET", path: "/console/data/requests/..%2f..%2f..%2fapi", cookie: cookie.Value}, 404},
		{"an explanation", visit{method: "GET", path: "/console/data/accessexplanations", cookie: cookie.Value}, 404},
		{"the API", visit{method: "GET", path: "/api/v1/namespaces", cookie: cookie.Value}, 401},
		{"the recorder's API", visit{method: "GET", path: "/apis/flightrecorder.kanzen.io/v1alpha1/requests", cookie: cookie.Value}, 401},
		{"metrics", visit{method: "GET", path: "/metrics", cookie: cookie.Value}, 401},
		{"another code", visit{method: "POST", path: "/console/codes", cookie: cookie.Value}, 401},
		{"another session", visit{method: "POST", path: "/console/session", cookie: cookie.Value}, 401},
		{"a code for anonymous", visit{method: "POST", path: "/console/codes"}, 401},
		{"a code for another site", visit{method: "POST", path: "/console/codes", user: masters, header: map[string]string{"Origin": "https://evil.example.com"}}, 403},
		{"signing in for another site", visit{method: "POST", path: "/console/session", user: masters, header: map[string]string{"Sec-Fetch-Site": "cross-site"}}, 403},
		{"signing out for another site", visit{method: "DELETE", path: "/console/session", cookie: cookie.Value, header: map[string]string{"Sec-Fetch-Site": "cross-site"}}, 403},
		{"by other credentials", visit{method: "GET", path: list, user: masters}, 200},
		{"a strange method", visit{method: "PUT", path: "/console/codes", user: masters}, 405},
		{"signing out", visit{method: "DELETE", path: "/console/session", cookie: cookie.Value}, 204},
		{"afterwards", visit{method: "GET", path: list, cookie: cookie.Value}, 401},
	} {
		if got := c.visit.at(s).StatusCode; got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestConsoleShowsWhatItsViewerMayGet checks that the page has no rights of its own.
func TestConsoleShowsWhatItsViewerMayGet(t *testing.T) {
	alone(t, testing.Short())
	s := start(t)
	cookie, _ := signIn(t, s, eve)
	for _, data := range []string{"requests", "requests/r1", "watches", "webhookstats", "deprecateduses", "trafficstats", "views", "controllers", "datastores",
		"prioritylevels", "definitions", "history?resource=namespaces&name=default"} {
		for _, v := range []visit{{method: "GET", path: "/console/data/" + data, cookie: cookie.Value}, {method: "GET", path: "/console/data/" + data, user: eve}} {
			answer := v.at(s)
			var status struct{ Message string }
			if err := json.NewDecoder(answer.Body).Decode(&status); err != nil || answer.StatusCode != 403 || !strings.Contains(status.Message, `"eve" cannot`) {
				t.Errorf("%s: %d %q, %v", data, answer.StatusCode, status.Message, err)
			}
		}
	}
}

// TestConsolePage checks the headers of all that the console answers, and that the page itself is for everybody by default.
func TestConsolePage(t *testing.T) {
	alone(t, testing.Short())
	s := start(t)
	for path, want := range map[string]struct {
		code int
		kind string
	}{
		"/console": {308, ""}, "/console/": {200, "text/html; charset=utf-8"}, "/console/console.js": {200, "text/javascript; charset=utf-8"},
		"/console/console.css": {200, "text/css; charset=utf-8"}, "/console/page.go": {401, ""}, "/console/..": {401, ""}, "/console/data/whoami": {401, ""}, "/console/data/": {404, ""},
	} {
		answer := visit{method: "GET", path: path}.at(s)
		h := answer.Header
		if answer.StatusCode != want.code || want.kind != "" && h.Get("Content-Type") != want.kind {
			t.Errorf("%s: %d %s", path, answer.StatusCode, h.Get("Content-Type"))
		}
		policy := h.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self';", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy %q lacks %s", path, policy, part)
			}
		}
		if strings.Contains(policy, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Frame-Options") != "DENY" || h.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", path, h)
		}
	}
	if got := (visit{method: "GET", path: "/consoles"}).at(s); got.StatusCode == 200 || got.Header.Get("Content-Security-Policy") != "" {
		t.Errorf("a path beside the console: %d", got.StatusCode)
	}
}

// TestConsoleAnonymous asks for each path of the console as somebody unknown, under each setting of who may be anonymous:
// only what the setting lets in is answered, and no bad credentials are.
func TestConsoleAnonymous(t *testing.T) {
	alone(t, testing.Short())
	file := func(anonymous string) func(*config.Config) {
		path := filepath.Join(t.TempDir(), "authentication.yaml")
		text := "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: " + anonymous + "\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return func(c *config.Config) { c.AuthenticationConfigFile = path }
	}
	all := append(console.Paths(), "/console/none")
	for name, c := range map[string]struct {
		set  func(*config.Config)
		lets []string
	}{
		"by default":          {func(*config.Config) {}, console.Paths()},
		"nobody":              {func(c *config.Config) { c.AnonymousAuth = false }, nil},
		"all by the file":     {file("{enabled: true}"), all},
		"nobody by the file":  {file("{enabled: false}"), nil},
		"health by the file":  {file("{enabled: true, conditions: [{path: /livez}]}"), nil},
		"a file, by the file": {file("{enabled: true, conditions: [{path: /console/}, {path: /console/console.js}]}"), []string{"/console/", "/console/console.js"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := startWith(t, c.set)
			for _, path := range all {
				for _, method := range []string{"GET", "HEAD", "POST"} {
					unknown := visit{method: method, path: path}.at(s).StatusCode
					if (unknown != 401) != slices.Contains(c.lets, path) {
						t.Errorf("%s %s answers %d to nobody", method, path, unknown)
					}
					if got := (visit{method: method, path: path, header: map[string]string{"Authorization": "Bearer x"}}).at(s).StatusCode; got != 401 {
						t.Errorf("%s %s answers %d to a bad token", method, path, got)
					}
					if got := (visit{method: method, path: path, cookie: "x"}).at(s).StatusCode; got != unknown {
						t.Errorf("%s %s answers %d to a bad cookie, %d without", method, path, got, unknown)
					}
					if got := (visit{method: method, path: path, user: eve}).at(s).StatusCode; got == 401 || got == 403 {
						t.Errorf("%s %s answers %d to a user", method, path, got)
					}
				}
			}
			for _, path := range []string{"/console/data/whoami", "/console/data/requests", "/console/session", "/console/codes"} {
				for _, method := range []string{"GET", "POST"} {
					if got := (visit{method: method, path: path}).at(s).StatusCode; got != 401 && got != 404 {
						t.Errorf("%s %s answers %d to nobody", method, path, got)
					}
				}
			}
		})
	}
}

// TestConsoleStrangers counts what somebody unknown gets on one connection: the files of the page, and little more.
func TestConsoleStrangers(t *testing.T) {
	alone(t, testing.Short())
	s := listening(t, func(*config.Config) {})
	for _, path := range console.Paths() {
		f, answers := speakHTTP2(t, s), 0
		// As in a browser, a file fits into the window of a stream.
		if err := errors.Join(f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}), f.WriteWindowUpdate(0, 1<<24)); err != nil {
			t.Fatal(err)
		}
		for ended := false; !ended; {
			id, err := f.get(path)
			if err != nil {
				break
			}
			for answered := false; !answered; {
				frame, err := f.ReadFrame()
				if err != nil {
					ended = true
					break
				}
				_, away := frame.(*http2.GoAwayFrame)
				ended = ended || away
				answered = frame.Header().StreamID == id && frame.Header().Flags.Has(http2.FlagDataEndStream)
			}
			if answers++; answers > 8 {
				t.Fatalf("%s: a stranger gets more than 8 answers on a connection", path)
			}
		}
		if answers < len(console.Paths())-1 && path != console.Prefix {
			t.Errorf("%s: a stranger gets %d answers on a connection, too few for the page", path, answers)
		}
	}
}

// TestConsoleBounds checks that a page of data is bounded, and that codes and sessions of one user do not pile up.
func TestConsoleBounds(t *testing.T) {
	alone(t, testing.Short())
	s := start(t)
	for n := range 700 {
		do(t, s, "GET", fmt.Sprintf("/api/v1/namespaces/default/configmaps/%d?x=%d", n, n), "", "", nil, 404)
		do(t, s, "DELETE", fmt.Sprintf("/api/v1/namespaces/default/configmaps/%d", n), "", "", nil, 404)
	}
	first, _ := signIn(t, s, masters)
	seen := map[string]bool{}
	from := ""
	for pages := 0; ; pages++ {
		answer := visit{method: "GET", path: "/console/data/requests?limit=100000&watch=true&fieldSelector=verb%3Ddelete&continue=" + from, cookie: first.Value}.at(s)
		var list struct {
			Metadata struct{ Continue string }
			Items    []struct {
				Metadata struct{ Name string }
			}
		}
		if err := json.NewDecoder(answer.Body).Decode(&list); err != nil || answer.StatusCode != 200 || len(list.Items) > 500 {
			t.Fatalf("%d with %d items: %v", answer.StatusCode, len(list.Items), err)
		}
		for _, i := range list.Items {
			if seen[i.Metadata.Name] {
				t.Fatalf("%s is on two pages", i.Metadata.Name)
			}
			seen[i.Metadata.Name] = true
		}
		if from = list.Metadata.Continue; from == "" {
			break
		}
		if pages > 10 {
			t.Fatal("there is no end of pages")
		}
	}
	if len(seen) != 700 {
		t.Errorf("%d requests on all pages", len(seen))
	}
	for range 8 {
		signIn(t, s, masters)
	}
	if got := (visit{method: "GET", path: "/console/data/whoami", cookie: first.Value}).at(s).StatusCode; got != 401 {
		t.Errorf("the oldest of too many sessions answers %d", got)
	}
}

// TestConsoleIsOff checks that there is none without a flight recorder, and as kube-apiserver.
func TestConsoleIsOff(t *testing.T) {
	alone(t, testing.Short())
	if config.Default().Console {
		t.Error("it is on as kube-apiserver")
	}
	for name, change := range map[string]func(*config.Config){"off": func(c *config.Config) { c.Console = false }, "no recorder": func(c *config.Config) { c.FlightRecorderMemory = 0 }} {
		s := startWith(t, change)
		for _, path := range []string{"/console/", "/console/data/requests", "/console/codes"} {
			if got := (visit{method: "GET", path: path, user: masters}).at(s).StatusCode; got != 404 {
				t.Errorf("%s: %s answers %d", name, path, got)
			}
		}
	}
}
