package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// requests makes requests for things, in order.
type requests struct {
	t  *testing.T
	ep *Endpoint
}

// request of a verb for a thing; name may be "NAME?query", or "" for all.
func (r requests) request(verb, name, body string) *http.Request {
	name, query, _ := strings.Cut(name, "?")
	info := &request.Info{IsResource: true, Verb: verb, Group: thingsGV.Group, Version: thingsGV.Version, Resource: "things", Name: name, Parts: []string{"things"}}
	path := "/apis/example.com/v1/things"
	if name != "" {
		info.Parts = append(info.Parts, name)
		path += "/" + name
	}
	method := map[string]string{"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE", "deletecollection": "DELETE"}[verb]
	req := httptest.NewRequest(method, path+"?"+query, strings.NewReader(body))
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "application/json")
	if verb == "patch" {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	return req.WithContext(request.WithInfo(r.t.Context(), info))
}

// ask returns the code of the answer and a summary: a thing's name and color, a
// reason, or the names of a list.
func (r requests) ask(verb, name, body string) string {
	r.t.Helper()
	w := httptest.NewRecorder()
	r.ep.ServeHTTP(w, r.request(verb, name, body))
	var a struct {
		Metadata      struct{ Name string }
		Color, Reason string
		Status        any
		Items         []struct {
			Metadata struct{ Name string }
			Color    string
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		r.t.Fatalf("%s %s: %v: %s", verb, name, err, w.Body)
	}
	text := fmt.Sprint(w.Code)
	switch {
	case w.Code >= 300:
		return strings.TrimSpace(text + " " + a.Reason)
	case a.Status == "Success":
		return text + " Success"
	case a.Items != nil:
		for _, i := range a.Items {
			text += " " + i.Metadata.Name + "=" + i.Color
		}
		return text
	}
	return text + " " + a.Metadata.Name + "=" + a.Color
}

func thingNamed(name, color, version string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":%q,"resourceVersion":%q},"color":%q}`, name, version, color)
}

// The life of a thing, one request after the other.
func TestVerbs(t *testing.T) {
	ep, _ := things(t, 0, 1, 1<<20)
	r := requests{t, ep}
	for n, c := range []struct{ verb, name, body, want string }{
		{"get", "a", "", "404 NotFound"},
		{"list", "", "", "200"},
		{"create", "", thingNamed("a", "red", ""), "201 a=red"},
		{"create", "", thingNamed("a", "blue", ""), "409 AlreadyExists"},
		{"create", "?dryRun=All", thingNamed("b", "red", ""), "201 b=red"},
		{"get", "b", "", "404 NotFound"},
		{"create", "", thingNamed("b", "blue", ""), "201 b=blue"},
		{"create", "", `{`, "400 BadRequest"},
		{"list", "", "", "200 a=red b=blue"},
		{"list", "?fieldSelector=color%3Dblue", "", "200 b=blue"},
		{"list", "?limit=1", "", "200 a=red"},
		{"update", "a", thingNamed("a", "white", ""), "200 a=white"},
		{"update", "a", thingNamed("a", "green", "1"), "409 Conflict"},
		{"update", "c", thingNamed("c", "green", "1"), "404 NotFound"},
		{"update", "a", thingNamed("b", "green", ""), "400 BadRequest"},
		{"patch", "a", `{"color":"green"}`, "200 a=green"},
		{"patch", "a?dryRun=All", `{"color":"white"}`, "200 a=white"},
		{"patch", "a", `{"metadata":{"resourceVersion":"1"}}`, "409 Conflict"},
		{"patch", "c", `{"color":"green"}`, "404 NotFound"},
		{"get", "a", "", "200 a=green"},
		{"delete", "a", `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"other"}}`, "409 Conflict"},
		{"delete", "a", "", "200 Success"},
		{"delete", "a", "", "404 NotFound"},
		{"list", "", "", "200 b=blue"},
		{"deletecollection", "", "", "200 b=blue"},
		{"list", "", "", "200"},
	} {
		if got := r.ask(c.verb, c.name, c.body); got != c.want {
			t.Errorf("%d: %s %s: got %s, want %s", n, c.verb, c.name, got, c.want)
		}
	}
}

// A watch sends existing objects, then changes.
func TestWatchVerb(t *testing.T) {
	ep, _ := things(t, 1, 1, 1<<20)
	r := requests{t, ep}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	next := []func(){
		func() { r.ask("create", "", thingNamed("a", "red", "")) },
		func() { r.ask("patch", "a", `{"color":"blue"}`) },
		func() { r.ask("delete", "a", "") },
		cancel,
	}
	var got []string
	lines := ""
	w := &writer{header: http.Header{}, wrote: func(p []byte) error {
		lines += string(p)
		for {
			line, rest, ok := strings.Cut(lines, "\n")
			if !ok {
				return nil
			}
			lines = rest
			var e struct {
				Type   string
				Object struct {
					Metadata struct{ Name string }
					Color    string
				}
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				return err
			}
			got = append(got, fmt.Sprintf("%s %s=%s", e.Type, e.Object.Metadata.Name, e.Object.Color))
			if len(next) > 0 {
				do := next[0]
				next = next[1:]
				do()
			}
		}
	}}
	req := r.request("watch", "", "")
	ep.ServeHTTP(w, req.WithContext(request.WithInfo(ctx, request.InfoFrom(req.Context()))))
	want := []string{"ADDED t000=red", "ADDED a=red", "MODIFIED a=blue", "DELETED a=blue"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An error of the log becomes an answer with a reason.
func TestLogFails(t *testing.T) {
	for _, c := range []struct {
		verb, name, body string
		of               memory.Operation
		want             string
	}{
		{"create", "", thingNamed("a", "red", ""), memory.Commit, "500"},
		{"patch", "t000", `{"color":"blue"}`, memory.Commit, "500"},
		{"get", "t000", "", memory.Head, "500"},
		{"list", "", "", memory.Head, "500"},
		{"delete", "t000", "", memory.Commit, "500"},
	} {
		ep, _, db := thingsIn(t, 1, 1, 1<<20)
		r := requests{t, ep}
		db.Inject(memory.Fault{Of: c.of, Err: errors.New("boom")})
		if got := r.ask(c.verb, c.name, c.body); got != c.want || db.Injected() > 0 {
			t.Errorf("%s: got %s, want %s", c.verb, got, c.want)
		}
		if got := r.ask("list", "", ""); got != "200 t000=red" {
			t.Errorf("after %s: %s", c.verb, got)
		}
	}
}
