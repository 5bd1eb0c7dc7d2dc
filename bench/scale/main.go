// Command scale measures what very many objects cost: kanzen, and kube-apiserver beside it, each on an etcd that holds them.
//
//	go run ./scale -kanzen ../kanzen -peer-bin peer/bin -objects 200000
//
// The objects are ConfigMaps. One is created through the server; the others are its stored bytes under other names, written to
// etcd directly, because what is measured are reads. Then the server is started again on them.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kanzen-io/kanzen/bench/side"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

const (
	path = "/api/v1/namespaces/default/configmaps"
	// first is the name of the object that is created. All names have its length, because they are in messages of protobuf.
	first = "o-0000000"
	page  = 500
)

// scale is how much of it there is.
type scale struct {
	programs             side.Programs
	objects, bytes, runs int
}

// row is one measure; each side has a value, in the order of sides.
type row struct {
	name, unit string
	values     map[string]float64
}

// report keeps rows in the order in which they were first added.
type report struct{ rows []*row }

func (r *report) add(of, name, unit string, value float64) {
	fmt.Fprintf(os.Stderr, "%s: %s: %.1f %s\n", of, name, value, unit)
	at := slices.IndexFunc(r.rows, func(r *row) bool { return r.name == name })
	if at < 0 {
		at = len(r.rows)
		r.rows = append(r.rows, &row{name, unit, map[string]float64{}})
	}
	r.rows[at].values[of] = value
}

func (r *report) print(names []string) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\t%s\t\n", strings.Join(names, "\t"))
	for _, row := range r.rows {
		fmt.Fprintf(w, "%s\t", row.name)
		for _, name := range names {
			fmt.Fprintf(w, "%.4g %s\t", row.values[name], row.unit)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // to standard output; the last thing that is done
}

func run(ctx context.Context) (err error) {
	var s scale
	kanzen := flag.String("kanzen", "", "a kanzen binary; none: it is built from this repository")
	peerBin := flag.String("peer-bin", os.Getenv("PEER_BIN"), "directory with kube-apiserver and etcd (also as PEER_BIN); none: they are built")
	only := flag.String("only", "", "one side alone: kanzen or peer")
	flag.IntVar(&s.objects, "objects", 200000, "ConfigMaps, up to ten million")
	flag.IntVar(&s.bytes, "bytes", 700, "of data in each; their JSON is some 200 larger")
	flag.IntVar(&s.runs, "runs", 5, "lists of everything after the first; pages are read ten times as often")
	flag.Parse()
	if s.programs, err = side.Build(ctx, *kanzen, *peerBin, side.Peer, side.Kanzen); err != nil {
		return err
	}
	names := map[string][]string{"": {side.Peer, side.Kanzen}, "kanzen": {side.Kanzen}, "peer": {side.Peer}}[*only]
	fmt.Printf("%s\n%d objects, median of %d\n", side.Machine(), s.objects, s.runs)
	var out report
	for _, name := range names {
		if err := s.measure(ctx, name, &out); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	out.print(names)
	return nil
}

func (s *scale) measure(ctx context.Context, name string, out *report) error {
	etcd, address, err := side.StartEtcd(s.programs)
	if err != nil {
		return err
	}
	defer etcd.Stop()
	server, err := side.Start(ctx, name, s.programs, side.Options{Etcd: address})
	if err != nil {
		return err
	}
	defer server.Stop()
	if err := s.fill(ctx, server, address); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	if err := server.Restart(ctx); err != nil {
		return err
	}
	add := func(what, unit string, value float64) { out.add(name, what, unit, value) }
	add("start on them, from exec to ready", "ms", milliseconds(server.Ready))
	m := &measurer{server: server, client: server.Client(), add: add}
	defer m.client.Close()
	began := time.Now()
	if err := m.client.Do(ctx, side.Request{Method: http.MethodGet, Path: path + "/" + first}, io.Discard); err != nil {
		return err
	}
	add("first get", "ms", milliseconds(time.Since(began)))
	if err := m.rest(ctx, "resident memory, one got"); err != nil {
		return err
	}
	if err := m.all(ctx, s); err != nil {
		return err
	}
	if err := m.rest(ctx, "resident memory, listed"); err != nil {
		return err
	}
	return m.parts(ctx, s)
}

// fill creates the first object and writes the others to etcd.
func (s *scale) fill(ctx context.Context, server *side.Side, address string) error {
	c := server.Client()
	defer c.Close()
	body := fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"labels":{"app":"scale","tier":"back"}},"data":{"a":%q}}`, first, s.text(0))
	if err := c.Create(ctx, path, body); err != nil {
		return err
	}
	db, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, DialTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer db.Close()
	return side.Copy(ctx, db, "/registry/configmaps/default/", 1, s.objects, func(i int) string { return fmt.Sprintf("o-%07d", i) }, s.text)
}

func (s *scale) text(i int) string { return side.Text(i, s.bytes) }

// measurer reads one side.
type measurer struct {
	server *side.Side
	client *side.Client
	add    func(what, unit string, value float64)
}

// rest adds the memory after a time of quiet.
func (m *measurer) rest(ctx context.Context, what string) error {
	if err := side.Sleep(ctx, 5*time.Second); err != nil {
		return err
	}
	mib, err := m.server.RSS()
	if err != nil {
		return err
	}
	m.add(what, "MiB", mib)
	if mib, err = m.server.Anonymous(); err == nil {
		m.add(what+", without mapped files", "MiB", mib)
	}
	return err
}

// all lists everything.
func (m *measurer) all(ctx context.Context, s *scale) error {
	for _, as := range []struct{ name, accept string }{{"JSON", "application/json"}, {"protobuf", "application/vnd.kubernetes.protobuf"}} {
		list := side.Request{Method: http.MethodGet, Path: path, Accept: as.accept}
		if err := m.time(ctx, "list of all, "+as.name+", the first", 1, func(int) side.Request { return list }, nil); err != nil {
			return err
		}
		if err := m.time(ctx, "list of all, "+as.name, s.runs, func(int) side.Request { return list }, nil); err != nil {
			return err
		}
	}
	return nil
}

var continues = regexp.MustCompile(`"continue":"([^"]+)"`)

// parts lists pages, and what a selector leaves.
func (m *measurer) parts(ctx context.Context, s *scale) error {
	next := ""
	pages := func(int) side.Request {
		return side.Request{Method: http.MethodGet, Path: fmt.Sprintf("%s?limit=%d&continue=%s", path, page, next)}
	}
	found := func(answer []byte) error {
		if at := continues.FindSubmatch(answer); at != nil {
			next = string(at[1])
			return nil
		}
		return errors.New("a page says not how to go on")
	}
	if err := m.time(ctx, fmt.Sprintf("page of %d", page), min(10*s.runs, s.objects/page-1), pages, found); err != nil {
		return err
	}
	none := func(n int) side.Request {
		return side.Request{Method: http.MethodGet, Path: fmt.Sprintf("%s?labelSelector=app%%3Dnone-%d", path, n)}
	}
	return m.time(ctx, "list by a label that none has", 10*s.runs, none, nil)
}

// time adds the median time and the processor time of n requests, one after the other.
func (m *measurer) time(ctx context.Context, what string, n int, request func(n int) side.Request, look func(answer []byte) error) error {
	before, err := m.server.CPU()
	if err != nil {
		return err
	}
	var took []time.Duration
	for i := range n {
		var answer bytes.Buffer
		to := io.Writer(io.Discard)
		if look != nil {
			to = &answer
		}
		began := time.Now()
		if err := m.client.Do(ctx, request(i), to); err != nil {
			return err
		}
		took = append(took, time.Since(began))
		if look != nil {
			if err := look(answer.Bytes()); err != nil {
				return err
			}
		}
	}
	after, err := m.server.CPU()
	if err != nil {
		return err
	}
	slices.Sort(took)
	m.add(what, "ms", milliseconds(took[len(took)/2]))
	m.add(what+", processor", "ms", milliseconds(after-before)/float64(n))
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
