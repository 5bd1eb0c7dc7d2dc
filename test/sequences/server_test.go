package sequences

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/test/goldens"
)

// server is one of the two.
type server struct {
	host   string
	client *http.Client
	hooks  *hooks
}

func newServer(c *rest.Config) (server, error) {
	transport, err := rest.TransportFor(c)
	return server{c.Host, &http.Client{Transport: transport}, newHooks()}, err
}

// answer is what a request got.
type answer struct {
	code     int
	kind     string // its media type
	warnings []string
	body     any
}

// side is a run of a sequence on one of the servers.
type side struct {
	server
	run     string
	seen    map[string][]metadata // what answers said of the objects at paths
	watches []*watch
}

// metadata is what steps can ask for.
type metadata struct{ rv, uid, next string }

var placeholder = regexp.MustCompile(`\$\{(rv|old|uid|next):([^}]*)\}`)

// fill puts what this server has shown into a text.
func (s *side) fill(text string) string {
	text = placeholder.ReplaceAllStringFunc(text, func(p string) string {
		m := placeholder.FindStringSubmatch(p)
		all := s.seen[m[2]]
		if len(all) == 0 {
			return map[string]string{"uid": "6a7b9a14-0000-4000-8000-000000000000"}[m[1]]
		}
		newest := all[len(all)-1]
		return map[string]string{"rv": newest.rv, "old": all[0].rv, "uid": newest.uid, "next": newest.next}[m[1]]
	})
	return strings.NewReplacer("$R", s.run, "$HOOK", s.hooks.URL, "$CA", s.hooks.ca).Replace(text)
}

// do sends a step.
func (s *side) do(ctx context.Context, st step) (answer, error) {
	body := s.fill(st.Body)
	if st.From != "" {
		got, err := s.send(ctx, step{Method: "GET", Path: st.From}, "")
		if err != nil {
			return got, err
		}
		if got.code != http.StatusOK { // then what is sent is an object that is not
			got.body = map[string]any{}
		}
		s.see(st.From, got)
		for _, e := range st.Edits {
			filled, err := decode([]byte(s.fill(string(must(json.Marshal(e.Value))))))
			if err != nil {
				return got, err
			}
			if changed, err := goldens.Apply(got.body, []goldens.Op{{Op: e.Op, Path: s.fill(e.Path), Value: filled}}); err == nil {
				got.body = changed
			}
		}
		body = string(must(json.Marshal(got.body)))
	}
	if st.Watch {
		s.watches = append(s.watches, s.watch(ctx, st))
		return s.watches[len(s.watches)-1].begun(), nil
	}
	got, err := s.send(ctx, st, body)
	if err == nil && got.code < 300 && st.Until != nil && !strings.Contains(st.Path, "dryRun=All") {
		err = s.await(ctx, *st.Until)
	}
	if err == nil {
		s.see(st.Path, got)
	}
	return got, err
}

// await sends a step until it is answered as it says, or will not be.
func (s *side) await(ctx context.Context, st step) error {
	for deadline := time.Now().Add(4 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if got, err := s.send(ctx, st, s.fill(st.Body)); err != nil || got.code == st.Code || time.Now().After(deadline) {
			return err
		}
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// see remembers what an answer says of objects, by their paths.
func (s *side) see(path string, got answer) {
	o, _ := got.body.(map[string]any)
	m, _ := o["metadata"].(map[string]any)
	if m == nil || got.code >= 300 {
		return
	}
	text := func(k string) string { t, _ := m[k].(string); return t }
	path, _, _ = strings.Cut(s.fill(path), "?")
	if _, list := o["items"]; !list {
		if at := strings.Index(path+"/", "/"+text("name")+"/"); at >= 0 {
			path = path[:at] // without a subresource
		}
		path += "/" + text("name")
	}
	path = strings.ReplaceAll(path, s.run, "$R")
	s.seen[path] = append(s.seen[path], metadata{text("resourceVersion"), text("uid"), text("continue")})
}

func (s *side) send(ctx context.Context, st step, body string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	resp, err := s.ask(ctx, st, body)
	if err != nil && strings.Contains(err.Error(), "INTERNAL_ERROR") {
		return answer{body: "it panics"}, nil
	}
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	got := answer{code: resp.StatusCode, warnings: resp.Header.Values("Warning")}
	got.kind, _, _ = mime.ParseMediaType(resp.Header.Get("Content-Type"))
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return got, err
	}
	got.body, err = parse(got.kind, data)
	return got, err
}

// ask is open until the server has time: kube-apiserver makes the storage of a changed definition anew.
func (s *side) ask(ctx context.Context, st step, body string) (*http.Response, error) {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(30 * time.Millisecond) {
		resp, err := s.open(ctx, st, body)
		if err != nil || resp.StatusCode != http.StatusTooManyRequests || strings.Contains(st.Path, "/eviction") || time.Now().After(deadline) {
			return resp, err
		}
		_ = resp.Body.Close()
	}
}

func (s *side) open(ctx context.Context, st step, body string) (*http.Response, error) {
	data, sent, err := encoded(st, body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, st.Method, s.host+s.fill(st.Path), bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "sequences")
	if st.Accept != "" {
		r.Header.Set("Accept", st.Accept)
	}
	for name, values := range st.Headers {
		for _, v := range values {
			if v = s.fill(v); name == "Authorization" {
				r.Header.Set(name, v) // the transport adds that of the administrator only where there is none
			} else {
				r.Header.Add(name, v)
			}
		}
	}
	if sent != "" {
		r.Header.Set("Content-Type", sent)
	} else if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return s.client.Do(r)
}

// watch collects events.
type watch struct {
	cancel context.CancelFunc
	first  answer // if it is refused

	mu     sync.Mutex
	events []any
	ended  bool
}

func (s *side) watch(ctx context.Context, st step) *watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{cancel: cancel}
	resp, err := s.ask(ctx, st, "")
	if err != nil {
		w.ended, w.first = true, answer{body: err.Error()}
		return w
	}
	w.first.code = resp.StatusCode
	w.first.kind, _, _ = mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err == nil {
			w.first.body, err = parse(w.first.kind, data)
		}
		if err != nil {
			w.first.body = err.Error()
		}
		w.ended = true
		return w
	}
	go func() {
		defer resp.Body.Close()
		next := eventsOf(w.first.kind, resp.Body)
		for {
			event, err := next()
			w.mu.Lock()
			if err != nil {
				w.ended = true
				w.mu.Unlock()
				return
			}
			w.events = append(w.events, event)
			w.mu.Unlock()
		}
	}()
	return w
}

func (w *watch) begun() answer { return w.first }

func (w *watch) state() (events []any, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events, w.ended
}
