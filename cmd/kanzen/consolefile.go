package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/observe/console"
	"github.com/kanzen-io/kanzen/internal/observe/recorder"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// shelf shows a file of 'kanzen record' as the page of a console. Whoever has the cookie sees it; a link gives it away once.
type shelf struct {
	*recorded
	file      string
	files     http.Handler
	resources map[string]*engine.Resource // of the recorder, by their plural
	history   func() (*recorder.Recorder, error)

	mu     sync.Mutex
	code   string // "" once it was used; guarded by mu
	cookie string
}

const shelfCookie = "kanzen-incident"

// still is a clock that stands at the end of a file: since=10m are the last minutes that it has.
type still struct {
	clock.RealClock
	at time.Time
}

func (s still) Now() time.Time { return s.at }

// newShelf reads a file.
func newShelf(path string) (*shelf, error) {
	r, err := readIncident(path)
	if err != nil {
		return nil, err
	}
	s := &shelf{recorded: r, file: filepath.Base(path), files: console.Files(), resources: map[string]*engine.Resource{}, code: rand.Text(), cookie: rand.Text(), history: sync.OnceValues(r.remembered)}
	for _, res := range (&recorder.Recorder{Config: recorder.Config{Clock: still{at: r.To.Time}}}).Resources(recorder.Deps{}) {
		s.resources[res.Plural] = res
	}
	return s, nil
}

// serve serves the page on a port of this machine that is free until ctx ends. ready is told the link.
func (s *shelf) serve(ctx context.Context, ready func(link string)) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	host := l.Addr().String()
	server := &http.Server{Handler: s.guard(host), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	ready("http://" + host + "/open?code=" + url.QueryEscape(s.code))
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// guard lets in who has the cookie, which the link gives away once. Pages of other sites reach this port by names of theirs.
func (s *shelf) guard(host string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Host != host:
			http.Error(w, "This is "+host+".", http.StatusMisdirectedRequest)
		case r.Method != http.MethodGet:
			http.Error(w, "This page only reads.", http.StatusMethodNotAllowed)
		case r.URL.Path == "/open" && s.redeem(r.URL.Query().Get("code")):
			http.SetCookie(w, &http.Cookie{Name: shelfCookie, Value: s.cookie, Path: console.Prefix, HttpOnly: true, SameSite: http.SameSiteStrictMode})
			w.Header().Set("Referrer-Policy", "no-referrer")
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			// A browser that came from elsewhere sends the cookie only from a page of this host on. A page without an icon makes it ask for
			// one, where its cookie does not count.
			_, _ = io.WriteString(w, `<!doctype html><link rel="icon" href="data:,"><meta http-equiv="refresh" content="0;url=`+console.Prefix+`/"><title>kanzen</title>`)
		case !s.knows(r):
			http.Error(w, "Open the link that kanzen console prints. It works once.", http.StatusForbidden)
		case strings.HasPrefix(r.URL.Path, console.Prefix+"/data/"):
			s.answer(w, r)
		default:
			s.files.ServeHTTP(w, r)
		}
	})
}

func (s *shelf) redeem(code string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.code == "" || subtle.ConstantTimeCompare([]byte(code), []byte(s.code)) == 0 {
		return false
	}
	s.code = ""
	return true
}

func (s *shelf) knows(r *http.Request) bool {
	c, err := r.Cookie(shelfCookie)
	return err == nil && subtle.ConstantTimeCompare([]byte(c.Value), []byte(s.cookie)) == 1
}

// answer answers what the page asks.
func (s *shelf) answer(w http.ResponseWriter, r *http.Request) {
	what, err := s.find(strings.TrimPrefix(r.URL.Path, console.Prefix+"/data/"), r.URL.Query())
	code := http.StatusOK
	if err != nil {
		code = http.StatusBadRequest
		var refused *refusedError
		if errors.As(err, &refused) {
			code = refused.code
		}
		what = metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Message: err.Error()} //nolint:gosec // it is a code of HTTP
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(what) // the browser may have closed the connection
}

// find returns what a path of the page names.
func (s *shelf) find(path string, q url.Values) (any, error) {
	switch path {
	case "whoami":
		return map[string]any{"user": s.file, "version": "kanzen " + s.Version, "recorded": map[string]any{"server": s.Server, "from": s.From, "to": s.To}}, nil
	case "kinds":
		return s.kinds(q.Get("prefix") == "apis"), nil
	case "history":
		known, err := s.history()
		if err != nil {
			return nil, err
		}
		var h v1alpha1.ObjectHistory
		h.Status.Entries, h.Status.Forgotten = known.History(v1alpha1.ObjectReference{Group: q.Get("group"), Resource: q.Get("resource"), Namespace: q.Get("namespace"), Name: q.Get("name")})
		return h, nil
	case "objects":
		if q.Get("group") == "" && q.Get("resource") == "events" && q.Get("name") == "" {
			return s.events(q)
		}
		return nil, &refusedError{http.StatusForbidden, errors.New("a saved incident holds no objects")}
	}
	plural, name, one := strings.Cut(path, "/")
	res := s.resources[plural]
	if res == nil {
		return nil, &refusedError{http.StatusNotFound, fmt.Errorf("a saved incident holds no %s", plural)}
	}
	if one {
		return s.named(res, name)
	}
	return s.list(res, q)
}

// of returns what the file holds of a kind.
func (s *shelf) of(res *engine.Resource) []json.RawMessage {
	switch res.Kind {
	case "Request":
		return s.requests
	case "Finding":
		return s.told
	}
	return s.others[res.Kind]
}

func (s *shelf) named(res *engine.Resource, name string) (any, error) {
	for _, text := range s.of(res) {
		var m metav1.PartialObjectMetadata
		if err := json.Unmarshal(text, &m); err != nil {
			return nil, err
		}
		if m.Name == name {
			return text, nil
		}
	}
	return nil, &refusedError{http.StatusNotFound, fmt.Errorf("the file holds no %s %q", res.Singular, name)}
}

// list returns a page of what a field selector chooses. The continue token is the place at which the next one begins.
func (s *shelf) list(res *engine.Resource, q url.Values) (any, error) {
	chosen, err := selector(res, q.Get("fieldSelector"))
	if err != nil {
		return nil, err
	}
	limit, err := strconv.Atoi(cmp.Or(q.Get("limit"), "200"))
	if err != nil || limit < 1 || limit > 500 {
		return nil, fmt.Errorf("invalid limit %q", q.Get("limit"))
	}
	from, err := strconv.Atoi(cmp.Or(q.Get("continue"), "0"))
	all := s.of(res)
	if err != nil || from < 0 || from > len(all) {
		return nil, fmt.Errorf("invalid continue token %q", q.Get("continue"))
	}
	chosen, terms, err := res.Select(chosen)
	if err != nil {
		return nil, err
	}
	out := page{Items: []json.RawMessage{}}
	for n, text := range all[from:] {
		if len(out.Items) == limit {
			out.Metadata.Continue = strconv.Itoa(from + n)
			break
		}
		if !chosen.Empty() || len(terms) > 0 {
			obj := res.Versions[0].New()
			if err := json.Unmarshal(text, obj); err != nil {
				return nil, err
			}
			if !chosen.Empty() && !chosen.Matches(res.Fields(obj)) || slices.ContainsFunc(terms, func(holds func(engine.Object) bool) bool { return !holds(obj) }) {
				continue
			}
		}
		out.Items = append(out.Items, text)
	}
	return out, nil
}

// events returns Events of a namespace that a field selector chooses, as the API of Events takes it: all of them on one page, since a file
// holds few.
func (s *shelf) events(q url.Values) (any, error) {
	chosen, err := fields.ParseSelector(q.Get("fieldSelector"))
	if err != nil {
		return nil, err
	}
	out := page{Items: []json.RawMessage{}}
	for _, text := range s.others["Event"] {
		var e corev1.Event
		if err := json.Unmarshal(text, &e); err != nil {
			return nil, err
		}
		known := fields.Set{"type": e.Type, "reason": e.Reason, "involvedObject.kind": e.InvolvedObject.Kind, "involvedObject.name": e.InvolvedObject.Name,
			"involvedObject.namespace": e.InvolvedObject.Namespace, "involvedObject.uid": string(e.InvolvedObject.UID)}
		for _, r := range chosen.Requirements() {
			if !known.Has(r.Field) {
				return nil, fmt.Errorf("events of a saved incident cannot be selected by %q", r.Field)
			}
		}
		if ns := q.Get("namespace"); (ns == "" || ns == e.Namespace) && chosen.Matches(known) {
			out.Items = append(out.Items, text)
		}
	}
	return out, nil
}

// selector parses a field selector as the API of a resource takes it.
func selector(res *engine.Resource, text string) (fields.Selector, error) {
	parsed, err := fields.ParseSelector(text)
	if err != nil || parsed.Empty() {
		return parsed, err
	}
	var known fields.Set
	if res.Fields != nil {
		known = res.Fields(res.Versions[0].New())
	}
	return parsed.Transform(func(field, value string) (string, string, error) {
		if f, v, ok := strings.Cut(res.FieldAliases[field+"="+value], "="); ok {
			field, value = f, v
		}
		if !known.Has(field) && res.Terms[field] == nil {
			return "", "", fmt.Errorf("%s cannot be selected by %q", res.Plural, field)
		}
		return field, value, nil
	})
}

// kinds are the resources that the server had, as discovery tells them.
func (s *shelf) kinds(named bool) apidiscoveryv2.APIGroupDiscoveryList {
	var out apidiscoveryv2.APIGroupDiscoveryList
	for n := range s.Served {
		r := &s.Served[n]
		if (r.group != "") != named {
			continue
		}
		i := slices.IndexFunc(out.Items, func(g apidiscoveryv2.APIGroupDiscovery) bool { return g.Name == r.group })
		if i < 0 {
			i = len(out.Items)
			out.Items = append(out.Items, apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: r.group}, Versions: []apidiscoveryv2.APIVersionDiscovery{{}}})
		}
		d := r.APIResourceDiscovery
		d.Verbs = []string{"list"}
		v := &out.Items[i].Versions[0]
		if d.ResponseKind != nil {
			v.Version = d.ResponseKind.Version
		}
		v.Resources = append(v.Resources, d)
	}
	return out
}
