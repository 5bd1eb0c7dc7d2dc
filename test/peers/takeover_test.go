package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/test/peer"
)

// turn is a server's on the etcd of a cluster.
type turn struct {
	name, path string
	flags      []string
	end        os.Signal // of the server before
	gap        bool      // it ends before this one starts
}

// TestTakeoverUnderWrites has servers take over from each other on one etcd, an older version from a newer one and kube-apiserver
// from kanzen and back.
func TestTakeoverUnderWrites(t *testing.T) {
	takeOver(t,
		turn{name: "1.36", path: program, flags: []string{"--emulated-version=1.36"}},
		turn{name: "1.37 takes over", path: program, end: syscall.SIGTERM},
		turn{name: "rolled back to 1.36", path: program, flags: []string{"--emulated-version=1.36"}, end: syscall.SIGKILL, gap: true},
		turn{name: "kube-apiserver takes over", end: syscall.SIGTERM},
		turn{name: "1.37 takes over again", path: program, end: syscall.SIGKILL, gap: true},
		turn{name: "kube-apiserver once more", end: syscall.SIGKILL},
		turn{name: "1.36 takes over from it", path: program, flags: []string{"--emulated-version=1.36"}, end: syscall.SIGKILL}, // SIGTERM takes it a minute
	)
}

// TestTakeoverOfOlderUnderWrites is the same with kube-apiserver of the version before, of which kanzen takes over, to which it is rolled
// back, and of which kube-apiserver of this version takes over.
func TestTakeoverOfOlderUnderWrites(t *testing.T) {
	older := peer.Older(t)
	takeOver(t,
		turn{name: "kube-apiserver 1.36", path: older},
		turn{name: "kanzen takes over", path: program, end: syscall.SIGKILL},
		turn{name: "rolled back to 1.36", path: program, flags: []string{"--emulated-version=1.36"}, end: syscall.SIGTERM},
		turn{name: "kube-apiserver 1.36 has it back", path: older, end: syscall.SIGTERM, gap: true},
		turn{name: "kube-apiserver 1.37 takes over", end: syscall.SIGKILL, gap: true},
		turn{name: "kanzen takes over again", path: program, end: syscall.SIGKILL},
	)
}

// takeOver gives each server its turn, while clients write all the time and watch. What was acknowledged is there, and a watch that is
// resumed with each server sees every write once and in order.
func takeOver(t *testing.T, turns ...turn) {
	etcd, b := peer.Etcd(t), newBalancer(t)
	clients := &rest.Config{Host: "https://" + b.Addr().String(), BearerToken: "peer-admin", TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1}
	var load *load
	stop, began := func(os.Signal) {}, time.Now()
	for _, turn := range turns {
		if turn.gap {
			stop(turn.end)
		}
		c, end := peer.StartStoppable(t, turn.path, etcd, turn.flags...)
		if load != nil {
			load.turn.Store(&turn.name)
		}
		t.Logf("%s after %s", turn.name, time.Since(began).Round(time.Millisecond))
		b.lead(c.Host)
		if !turn.gap {
			stop(turn.end)
		}
		stop = end
		if load == nil {
			load = newLoad(t, clients)
		}
		load.each(turn.name, 30)
	}
	load.end()
}

// collections are what is written: where, and an object.
var collections = map[string]string{
	"/api/v1/namespaces/default/configmaps":                      `{"metadata":{"name":%q,"annotations":{"value":"0"}},"data":{"a":"b"}}`,
	"/apis/apps/v1/namespaces/default/deployments":               `{"metadata":{"name":%q,"annotations":{"value":"0"}},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
	"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims": `{"metadata":{"name":%q,"annotations":{"value":"0"}},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c"}}]}}}`,
	"/apis/taken.test/v1/namespaces/default/gadgets":             `{"apiVersion":"taken.test/v1","kind":"Gadget","metadata":{"name":%q,"annotations":{"value":"0"}}}`,
}

// load is clients that write, each an object of its own whose value it counts up, and watches of all that they write.
type load struct {
	t      *testing.T
	c      *rest.Config
	http   *http.Client
	ctx    context.Context
	cancel context.CancelFunc

	writing, watching sync.WaitGroup
	quiet             atomic.Bool // nobody begins another write

	writers  []*writer
	watches  []*watcher
	turn     atomic.Pointer[string]
	relisted atomic.Int32
}

// writer is a client that writes one object at a time.
type writer struct {
	*load
	collection, name string
	object           map[string]any // as last answered
	done             atomic.Int64   // acknowledged
	unsure           int            // writes that had no answer
}

func newLoad(t *testing.T, c *rest.Config) *load {
	t.Helper()
	h, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	l := &load{t: t, c: c, http: h}
	l.turn.Store(new(string))
	l.ctx, l.cancel = context.WithCancel(t.Context())
	made := ask(t, c, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"gadgets.taken.test"},"spec":{"group":"taken.test","scope":"Namespaced","names":{"plural":"gadgets","kind":"Gadget"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	if made.code != http.StatusCreated {
		t.Fatal(made)
	}
	for collection := range collections {
		within(t, collection+" is served", func() bool { return ask(t, c, "GET", collection, "").code == http.StatusOK })
		w := &watcher{load: l, collection: collection, values: map[string]int64{}}
		w.revision, _ = w.list()
		l.watches = append(l.watches, w)
		l.watching.Go(w.run)
		for n := range 3 {
			w := &writer{load: l, collection: collection, name: fmt.Sprint("w", n)}
			l.writers = append(l.writers, w)
			l.writing.Go(w.run)
		}
	}
	return l
}

// each waits until every writer has had so many more writes acknowledged.
func (l *load) each(turn string, n int64) {
	l.t.Helper()
	for _, w := range l.writers {
		until := w.done.Load() + n
		within(l.t, fmt.Sprintf("%s: %s writes of %s", turn, w.name, w.collection), func() bool { return w.done.Load() >= until || l.t.Failed() })
	}
}

// end ends the clients, and compares what they know with what there is.
func (l *load) end() {
	l.t.Helper()
	wrote, unsure := int64(0), 0
	l.quiet.Store(true)
	l.writing.Wait()
	for _, w := range l.writers {
		within(l.t, "the watch has seen the last write", func() bool { return l.t.Failed() || l.watchOf(w.collection).value(w.name) == valueOf(w.object) })
	}
	l.cancel()
	l.watching.Wait()
	for _, w := range l.writers {
		wrote, unsure = wrote+w.done.Load(), unsure+w.unsure
		a := ask(l.t, l.c, "GET", w.collection+"/"+w.name, "")
		var now map[string]any
		if err := json.Unmarshal([]byte(a.body), &now); err != nil || a.code != http.StatusOK {
			l.t.Fatal(a)
		}
		if valueOf(now) != valueOf(w.object) || revisionOf(now) != revisionOf(w.object) {
			l.t.Errorf("%s/%s has the value %d at %s; acknowledged were %d at %s", w.collection, w.name, valueOf(now), revisionOf(now), valueOf(w.object), revisionOf(w.object))
		}
	}
	l.t.Logf("%d writes, of which %d had no answer at first; %d watches began anew", wrote, unsure, l.relisted.Load())
}

func (l *load) watchOf(collection string) *watcher {
	for _, w := range l.watches {
		if w.collection == collection {
			return w
		}
	}
	return nil
}

// send returns code 0 if there was no answer, or none that says what became of the request.
func (l *load) send(method, path string, body []byte) (code int, answer map[string]any) {
	ctx, cancel := context.WithTimeout(l.ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, l.c.Host+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := l.http.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || json.Unmarshal(data, &answer) != nil || resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests {
		return 0, nil
	}
	return resp.StatusCode, answer
}

// pause is between two writes of a writer. Twelve of them still have more than one write under way at any moment, and leave the
// processors to servers that start.
const pause = 10 * time.Millisecond

func (w *writer) run() {
	for w.ctx.Err() == nil && !w.quiet.Load() {
		w.write()
		time.Sleep(pause)
	}
}

// write makes the object or counts its value up, and finds out what became of it where there was no answer.
func (w *writer) write() {
	path := w.collection + "/" + w.name
	method, at, body, value := http.MethodPost, w.collection, fmt.Appendf(nil, collections[w.collection], w.name), int64(0)
	if w.object != nil {
		value = valueOf(w.object) + 1
		next := map[string]any{}
		data, _ := json.Marshal(w.object)
		_ = json.Unmarshal(data, &next)
		next["metadata"].(map[string]any)["annotations"].(map[string]any)["value"] = strconv.FormatInt(value, 10)
		method, at = http.MethodPut, path
		body, _ = json.Marshal(next)
	}
	code, answer := w.send(method, at, body)
	switch code {
	case http.StatusOK, http.StatusCreated:
		w.acknowledged(answer, value)
		return
	case 0:
		w.unsure++
	case http.StatusNotFound: // a definition that a server has just begun to serve, or the object is lost
		if w.object != nil {
			if code, _ := w.send(http.MethodGet, path, nil); code == http.StatusNotFound && w.served() {
				w.t.Errorf("%s: %s is lost", *w.turn.Load(), path)
				w.cancel()
			}
		}
		return
	case http.StatusConflict: // with an attempt before that had no answer
	default:
		w.t.Errorf("%s: %s %s: %d %v", *w.turn.Load(), method, at, code, answer)
		w.cancel()
		return
	}
	// Nobody else writes the object, so it has the value from before or this one.
	for w.ctx.Err() == nil {
		code, now := w.send(http.MethodGet, path, nil)
		switch {
		case code == http.StatusNotFound && w.object == nil:
			return
		case code != http.StatusOK:
			continue
		case valueOf(now) == value:
			w.acknowledged(now, value)
		case w.object == nil || valueOf(now) != value-1:
			w.t.Errorf("%s: %s has the value %d after a write of %d", *w.turn.Load(), path, valueOf(now), value)
			w.cancel()
		}
		return
	}
}

// served reports whether the collection is served.
func (w *writer) served() bool {
	code, _ := w.send(http.MethodGet, w.collection, nil)
	return code == http.StatusOK
}

func (w *writer) acknowledged(object map[string]any, value int64) {
	if valueOf(object) != value {
		w.t.Errorf("%s: %s/%s: the value is %d in the answer to a write of %d", *w.turn.Load(), w.collection, w.name, valueOf(object), value)
	}
	w.object = object
	w.done.Add(1)
}
