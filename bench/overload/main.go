// Command overload floods a kanzen, and a kube-apiserver beside it if there is
// one, with the requests of one tenant, ten times and more what it can serve,
// and measures what others notice of it: another tenant of the same priority
// level, a node, and a controller's lease.
//
//	go run ./overload -kanzen ../kanzen -peer-bin peer/bin
//
// What they notice has two causes: that they wait for seats, and that the
// machine's processors are busy with the flood. -wait has each write wait for a
// webhook, so that there is too little of seats only: then a tenant that does
// what the flood does must have its answers within twice the time that it has
// them alone, at the 99th percentile, or the command fails. It fails too if
// anybody but the flood is refused, and if the server grows or ends.
// kube-apiserver is held to nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kanzen-io/kanzen/bench/side"
)

const (
	objects = 300 // config maps that the flood changes
	listed  = "/api/v1/namespaces/flood/configmaps"
	one     = "/api/v1/namespaces/default/configmaps/mine"
	lease   = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	leader  = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	tokens  = "flood,flood,2,tenants\ntenant,tenant,3,tenants\nnode,system:node:n,4,system:nodes\ncontroller,system:kube-controller-manager,5\n"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "overload:", err)
		os.Exit(1)
	}
}

// overload is how much of it there is.
type overload struct {
	programs side.Programs
	length   time.Duration // of each part
	seats    int
	wait     time.Duration // of each write of a config map, for a webhook
	flood    flood
}

func run(ctx context.Context) (err error) {
	var o overload
	kanzen := flag.String("kanzen", "", "a kanzen binary; none: it is built from this repository")
	peerBin := flag.String("peer-bin", os.Getenv("PEER_BIN"), "directory with kube-apiserver and etcd, to measure them too (also as PEER_BIN)")
	flag.DurationVar(&o.length, "for", 10*time.Second, "how long each part lasts")
	flag.IntVar(&o.seats, "seats", 24, "seats of the server: --max-requests-inflight and --max-mutating-requests-inflight together")
	flag.IntVar(&o.flood.clients, "clients", 600, "connections of the flood")
	flag.BoolVar(&o.flood.polite, "polite", false, "the flood waits for as long as Retry-After says when it is refused, as client-go does; else it comes again at once")
	flag.DurationVar(&o.wait, "wait", 0, "how long each write of the flood and the tenant waits for a webhook, so that not the processors but the seats are what there is too little of")
	url := flag.String("flood", "", "be the flood at this address (what this program starts by itself)")
	flag.Parse()
	if *url != "" {
		return o.flood.run(ctx, *url)
	}
	sides := []string{side.Kanzen}
	if *peerBin != "" {
		sides = []string{side.Peer, side.Kanzen}
	}
	if o.programs, err = side.Build(ctx, *kanzen, *peerBin, sides...); err != nil {
		return err
	}
	fmt.Printf("%s\n%d seats; %s; a webhook takes %s\n", side.Machine(), o.seats, o.flood, o.wait)
	outcomes := map[string]*outcome{}
	for _, name := range sides {
		fmt.Printf("\n%s\n", name)
		if outcomes[name], err = o.measure(ctx, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if peer := outcomes[side.Peer]; peer != nil {
		compare(peer, outcomes[side.Kanzen])
	}
	return outcomes[side.Kanzen].judge(o.wait > 0)
}

// measure starts a side, measures it and stops it.
func (o *overload) measure(ctx context.Context, name string) (*outcome, error) {
	s, err := side.Start(ctx, name, o.programs, side.Options{
		Authorization: "AlwaysAllow",
		Tokens:        tokens,
		Flags: []string{"--disable-admission-plugins=ServiceAccount,NodeRestriction",
			"--max-requests-inflight", strconv.Itoa(o.seats * 2 / 3), "--max-mutating-requests-inflight", strconv.Itoa(o.seats - o.seats*2/3)},
	})
	if err != nil {
		return nil, err
	}
	defer s.Stop()
	out, err := o.parts(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, s.Logs())
	}
	return out, nil
}

// parts measures one part after the other.
func (o *overload) parts(ctx context.Context, s *side.Side) (out *outcome, err error) {
	if err := fill(ctx, s); err != nil {
		return nil, err
	}
	if o.wait > 0 {
		done, err := installWebhook(ctx, s, o.wait)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	if err := s.Calm(ctx); err != nil {
		return nil, err
	}
	out = &outcome{}
	if out.before, err = s.RSS(); err != nil {
		return nil, err
	}
	if out.alone, err = measurePart(ctx, s, o.length); err != nil {
		return nil, err
	}
	out.alone.print("alone")
	if out.flooded, err = o.beside(ctx, s, o.flood); err != nil {
		return nil, err
	}
	out.flooded.print("beside the flood")
	if out.after, err = s.RSS(); err != nil {
		return nil, err
	}
	fmt.Printf("memory: %.0f MiB before, %.0f MiB after\n", out.before, out.after)
	return out, nil
}

// adjusted is how long it takes until seats have been moved to where they are
// wanted: both servers do that every ten seconds.
const adjusted = 11 * time.Second

// beside measures a part while there is a flood.
func (o *overload) beside(ctx context.Context, s *side.Side, f flood) (p part, err error) {
	started, err := f.start(ctx, s.URL)
	if err != nil {
		return part{}, err
	}
	if err := side.Sleep(ctx, adjusted); err != nil {
		_, _ = started.stop() // what it says does not matter any more
		return part{}, err
	}
	before, err := s.CPU()
	if err == nil {
		p, err = measurePart(ctx, s, o.length)
	}
	after, failed := s.CPU()
	rates, unread := started.stop()
	p.rates, p.processors = &rates, (after-before).Seconds()/o.length.Seconds()
	return p, errors.Join(err, failed, unread)
}

// fill makes what is asked for.
func fill(ctx context.Context, s *side.Side) error {
	c := s.Client()
	defer c.Close()
	bodies := [][2]string{{"/api/v1/namespaces", `{"metadata":{"name":"flood"}}`}, {"/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"mine"}}`},
		{lease, `{"metadata":{"name":"n"}}`}, {leader, `{"metadata":{"name":"kube-controller-manager"}}`}}
	for n := range objects {
		bodies = append(bodies, [2]string{listed, fmt.Sprintf(`{"metadata":{"name":"c%d"},"data":{"k":%q}}`, n, strings.Repeat("x", 1000))})
	}
	for _, b := range bodies {
		if err := c.Create(ctx, b[0], b[1]); err != nil {
			return err
		}
	}
	return nil
}

// installWebhook has each write of a config map wait for a webhook. done ends
// serving that.
func installWebhook(ctx context.Context, s *side.Side, wait time.Duration) (done func(), err error) {
	hooks := side.ServeWebhooks(func(r *http.Request) string {
		_ = side.Sleep(r.Context(), wait)
		return ""
	})
	c := s.Client()
	defer c.Close()
	body := fmt.Sprintf(`{"metadata":{"name":"wait"},"webhooks":[{"name":"wait.example.com","clientConfig":%s,"sideEffects":"None","admissionReviewVersions":["v1"],
		"rules":[{"operations":["UPDATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]}]}`, hooks.ClientConfig("wait"))
	if err = c.Create(ctx, side.Registration+"validatingwebhookconfigurations", body); err == nil {
		err = side.Sleep(ctx, side.InForce)
	}
	if err != nil {
		hooks.Close()
		return nil, err
	}
	return hooks.Close, nil
}
