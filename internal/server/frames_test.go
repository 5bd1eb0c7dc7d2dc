package server

import (
	"bytes"
	"context"
	"github.com/kanzen-io/kanzen/internal/process"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// stacks is a database that records the calls through which a request reached it.
type stacks struct {
	store.DB

	mu   sync.Mutex
	last []runtime.Frame // of the last call by a request, innermost first; guarded by mu
}

func (s *stacks) Head(ctx context.Context) (int64, error) {
	s.record()
	return s.DB.Head(ctx)
}

func (s *stacks) Commit(ctx context.Context, t kv.Txn) (kv.Committed, error) {
	s.record()
	return s.DB.Commit(ctx, t)
}

// record keeps the stack of the calling goroutine if it serves a request that
// came over a connection; the server makes requests of its own.
func (s *stacks) record() {
	pcs := make([]uintptr, 500)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var all []runtime.Frame
	request := false
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		all = append(all, f)
		request = request || f.Function == netHandler
	}
	if request {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last = all
	}
}

func (s *stacks) take() []runtime.Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.last = nil }()
	return s.last
}

// chainFrames are those of the 19 filters that the default settings configure, of the entry into the chain (2), of what
// measures filters (6), and of the flight recorder's way with a watch.
const chainFrames = 28

// rootHandler serves what passes the chain, and netHandler is the last function of net/http before the chain.
const (
	rootHandler = "server.(*root).ServeHTTP"
	netHandler  = "net/http.serverHandler.ServeHTTP"
)

// depth counts the frames of the chain and those from the root handler to the database. A call that the compiler has
// inlined has no frame.
func depth(t *testing.T, all []runtime.Frame) (chain, below int) {
	at := &below
	for _, f := range all {
		inlined := ""
		if f.Func == nil {
			inlined = " (inlined)"
		}
		t.Logf("%s%s", f.Function[strings.LastIndex(f.Function, "/")+1:], inlined)
		if f.Function == netHandler {
			return chain, below
		}
		if inlined == "" {
			*at++
		}
		if strings.HasSuffix(f.Function, rootHandler) {
			at = &chain
		}
	}
	t.Fatal("no request")
	return 0, 0
}

// TestFrames bounds how deep the calls of a request are, so that the chain stays flat and the way from the root
// handler to the database stays short.
func TestFrames(t *testing.T) {
	db := &stacks{}
	client, url := listeningOn(t, db)
	const maps = "/api/v1/namespaces/default/configmaps"
	for _, c := range []struct {
		name, method, path, contentType, body string
		most                                  int // frames from the root handler to the database
	}{
		{"create", "POST", maps, "application/json", `{"metadata":{"name":"a"}}`, 13},
		// A read waits until its view is fresh, which is measured (View.Fresh).
		{"get", "GET", maps + "/a", "", "", 10},
		{"list", "GET", maps, "", "", 10},
		{"patch", "PATCH", maps + "/a", "application/merge-patch+json", `{"data":{"a":"b"}}`, 14},
		{"apply", "PATCH", maps + "/a?fieldManager=m", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"c":"d"}}`, 14},
		{"watch", "GET", maps + "?watch=1&timeoutSeconds=1", "", "", 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), c.method, url+c.path, bytes.NewReader([]byte(c.body)))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", c.contentType)
			db.take()
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode >= 300 || resp.ProtoMajor != 2 {
				body, _ := io.ReadAll(resp.Body)
				t.Fatalf("%s by %s: %s", resp.Status, resp.Proto, body)
			}
			chain, below := depth(t, db.take())
			t.Logf("%d frames in the chain, %d from the root handler to the database", chain, below)
			if chain > chainFrames || below > c.most {
				t.Errorf("want at most %d and %d", chainFrames, c.most)
			}
		})
	}
}

// listeningOn starts a server whose database is observed by db, and returns a client of its administrator.
func listeningOn(t *testing.T, db *stacks) (*http.Client, string) {
	t.Helper()
	cfg := config.Standalone()
	cfg.DataDir, cfg.UnsafeNoFsync, cfg.Controllers, cfg.SecurePort = t.TempDir(), true, nil, 0
	around := func(log store.DB) store.DB { db.DB = log; return db }
	on, plane := planeOf(t, &cfg, process.Given{Around: around})
	s := running(t, plane, on.Close)
	admin, err := clientcmd.BuildConfigFromFlags("", s.files.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(admin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return client, admin.Host
}
