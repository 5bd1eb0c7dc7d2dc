package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kanzen-io/kanzen/bench/side"
)

// tails measures how long requests take that come at a rate, whether or not earlier ones were answered.
type tails struct {
	*bench
	closed, cell time.Duration      // how long the rate is measured that a side reaches, and then each rate
	peer         map[string]float64 // by load: the rate that the peer reaches
}

// tailNames are the loads, in the order in which they are measured. Creations make the side's data grow, so they come last.
var tailNames = []string{"get", "list-label", "lease-renew", "patch-status", "apply-new", "create"}

var (
	ownSection   = section{"At half of the rate that the side reaches", "Time from when a request was due until the last byte of its answer."}
	equalSection = section{"At half of the rate that kube-apiserver reaches", "All sides get the same rate."}
	overSection  = section{"At one and a half times the rate that the side reaches", "Times are those of requests that were answered with success. " +
		"They include how long a request waited in the client, which shares the machine. Sent too late are those that waited there for more than 0.1 s."}
	pauseSection = section{"Stops by the garbage collector", "By the metric go_gc_duration_seconds of each process. " +
		"The sum is that of all processes of a side; the longest is an upper bound."}
)

// paces are the rates of which each load is measured.
var paces = []struct {
	name    string
	section section
	rate    func(own, peer float64) float64
}{
	{"half of its rate", ownSection, func(own, _ float64) float64 { return own / 2 }},
	{"half of kube-apiserver's rate", equalSection, func(_, peer float64) float64 { return peer / 2 }},
	{"overload", overSection, func(own, _ float64) float64 { return own * 1.5 }},
}

// tailUser is who sends the requests. Priority and fairness exempts administrators.
const tailUser = "tails"

// measureTails measures all sides and writes the report into the directory out, if there is one.
func (b *bench) measureTails(ctx context.Context, runs int, quick bool, out, which string) error {
	b.pods = max(b.pods, 2*callers*streams) // as many as leases, of which none may be renewed twice at a time
	t := &tails{bench: b, closed: 3 * time.Second, cell: 10 * time.Second, peer: map[string]float64{}}
	if quick {
		t.closed, t.cell = t.closed/6, t.cell/10
	}
	for i := range runs {
		progress("run %d of %d", i+1, runs)
		for _, name := range []string{side.Peer, side.Kanzen, side.Pebble} { // the peer's rate is for all
			if err := t.run(ctx, name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	conditions := b.results.conditions(runs, which)
	fmt.Print(conditions, "\n", b.results.tables())
	if out == "" {
		return nil
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	page := "# How long the slowest requests take\n\n" +
		"Made by `cd bench && go run . -tails`; [bench/README.md](../../bench/README.md#tails) explains how each number is measured.\n\n" +
		conditions + "\n" + b.results.tables()
	return os.WriteFile(filepath.Join(out, "tails.md"), []byte(page), 0o644)
}

// run starts a side, gives it its pods and measures the loads.
func (t *tails) run(ctx context.Context, name string) error {
	s, err := side.Start(ctx, name, t.programs, side.Options{Tokens: tailUser + "," + tailUser + "," + tailUser + "\n"})
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := setUp(ctx, s); err != nil {
		return err
	}
	if err := post(ctx, s, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"`+tailUser+`"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},
		"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"`+tailUser+`"}]}`); err != nil {
		return err
	}
	all := loads(t.pods)
	if err := t.fill(ctx, s, all[0]); err != nil {
		return err
	}
	if err := s.Calm(ctx); err != nil {
		return err
	}
	for _, name := range tailNames {
		if !t.wants(name) {
			continue
		}
		if err := t.row(ctx, s, all[slices.Index(loadNames(all), name)]); err != nil {
			return fmt.Errorf("%s: %w%s", name, err, s.Logs())
		}
	}
	return nil
}

// row measures which rate a side reaches, and then how long requests take at others.
func (t *tails) row(ctx context.Context, s *side.Side, l load) error {
	if l.before != nil {
		if _, err := l.before(ctx, s); err != nil { // none of these has to be undone
			return err
		}
	}
	send := &sender{load: l}
	defer send.close()
	for range callers {
		send.clients = append(send.clients, httpConnection{side.NewClient(s.URL, tailUser)})
	}
	send.next.Store(int64(t.pods + 50)) // the numbers of the creations so far
	if _, err := send.reach(ctx, t.closed/3); err != nil {
		return err
	}
	own, err := send.reach(ctx, t.closed)
	if err != nil {
		return err
	}
	progress("%s: %s: reaches %.0f/s", s.Name, l.name, own)
	if s.Name == side.Peer {
		t.peer[l.name] = own
	}
	var last outcome
	for _, p := range paces {
		rate := p.rate(own, t.peer[l.name])
		if s.Name != side.Peer || p.section != equalSection { // the peer's last was at the same rate
			if last, err = t.pace(ctx, s, send, rate); err != nil {
				return err
			}
			progress("%s: %s, %s: %s", s.Name, l.name, p.name, last)
		}
		t.record(p.section, l.title, p.name, s.Name, last)
	}
	return nil
}

// pace sends requests at a rate and reads what the garbage collectors did meanwhile.
func (t *tails) pace(ctx context.Context, s *side.Side, send *sender, rate float64) (o outcome, err error) {
	if err := side.Sleep(ctx, t.quiet/3); err != nil { // what the last rate left to do
		return o, err
	}
	before, err := s.Pauses(ctx)
	if err != nil {
		return o, err
	}
	began := time.Now()
	if o, err = send.pace(ctx, rate, t.cell); err != nil {
		return o, err
	}
	o.wall = time.Since(began)
	after, err := s.Pauses(ctx)
	if err != nil {
		return o, err
	}
	for i := range after {
		total, longest := after[i].Since(before[i])
		o.stopped, o.longest = o.stopped+total, max(o.longest, longest)
	}
	return o, nil
}

// record adds what came out to the tables.
func (t *tails) record(sec section, title, pace, name string, o outcome) {
	t.results.addHigher(sec, title+": sent per second", "", name, o.rate)
	for _, p := range []struct {
		name string
		p    float64
	}{{"median", 50}, {"99%", 99}, {"99.9%", 99.9}} {
		took := math.NaN()
		if len(o.took) > 0 {
			took = ms(side.Percentile(o.took, p.p))
		}
		t.results.add(sec, title+": "+p.name, "ms", name, took)
	}
	if sec == overSection {
		t.results.add(sec, title+": sent too late", share, name, o.share(o.tooLate()))
		t.results.add(sec, title+": refused (429)", share, name, o.share(o.refused))
		t.results.add(sec, title+": timed out or failed", share, name, o.share(o.expired+o.failed))
	}
	row := title + ", " + pace
	t.results.add(pauseSection, row+": sum in each second", "ms", name, ms(o.stopped)/o.wall.Seconds())
	t.results.add(pauseSection, row+": the longest", "ms", name, ms(o.longest))
}

// outcome is what became of requests at a rate.
type outcome struct {
	rate             float64 // requests per second
	sent             int
	took             []time.Duration // those that were answered with success
	late             []time.Duration // how long after it was due each was sent
	refused, expired int             // answered 429; not answered in time
	failed           int             // for another reason
	failure          error           // the first of these
	wall             time.Duration
	stopped, longest time.Duration // by garbage collectors
}

// add counts what became of a request.
func (o *outcome) add(took, late time.Duration, err error) {
	o.sent++
	o.late = append(o.late, late)
	switch {
	case err == nil:
		o.took = append(o.took, took)
	case side.Code(err) == http.StatusTooManyRequests:
		o.refused++
	case errors.Is(err, context.DeadlineExceeded):
		o.expired++
	default:
		o.failed++
		if o.failure == nil {
			o.failure = err
		}
	}
}

// tooLate counts the requests that the client sent so late that they say more of it than of the server.
func (o *outcome) tooLate() (n int) {
	for _, late := range o.late {
		if late > 100*time.Millisecond {
			n++
		}
	}
	return n
}

func (o *outcome) share(n int) float64 { return 100 * float64(n) / float64(o.sent) }

func (o outcome) String() string {
	text := fmt.Sprintf("%.0f/s, median %.2f ms, p99 %.2f ms, p99.9 %.2f ms, %d of %d refused, %d timed out, 99%% sent within %.2f ms, longest stop %.2f ms",
		o.rate, ms(side.Percentile(o.took, 50)), ms(side.Percentile(o.took, 99)), ms(side.Percentile(o.took, 99.9)),
		o.refused, o.sent, o.expired, ms(side.Percentile(o.late, 99)), ms(o.longest))
	if o.failed > 0 {
		text += fmt.Sprintf("\nWARNING: %d failed, the first: %v", o.failed, o.failure)
	}
	return text
}
