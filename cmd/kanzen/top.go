package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kanzen-io/kanzen/internal/base/version"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

func topCommand() *cobra.Command {
	a := asking{agent: fmt.Sprintf("kanzen-top/%s (%08x)", version.Kanzen, rand.Uint32())}
	t := &top{window: 5 * time.Second}
	once := false
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show live who sends which requests to the server",
		Long: `Shows requests by client, user or resource with their rates and latencies, the
webhooks and policies, the watches, and the planes (--planes). The head says how the server does and how
many problems 'kanzen diagnose' finds. Rates of reads are estimates from the
flight recorder's sample.

The keys are on the screen; ? shows all of them. Enter opens a line: the requests
of a client, the calls of a webhook, the watches of a client, and of a request how
long it was in each part of the server.

There are no colors if NO_COLOR is set.`,
		Args: cobra.NoArgs,
	}
	a.add(cmd.Flags(), false)
	cmd.Flags().DurationVar(&t.window, "window", t.window, "Time over which rates and latencies are computed.")
	cmd.Flags().BoolVar(&once, "once", false, "Show one window and exit. This is the default without a terminal and with -o json.")
	cmd.Flags().BoolVar(&t.onPlanes, "planes", false, "Begin with the planes: control planes below the server, by use.")
	cmd.Flags().BoolVar(&t.own, "own", false, "Show the requests that top itself sends, too.")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if t.window <= 0 || t.window > keepFor {
			return fmt.Errorf("--window: must be more than 0 and at most %v", keepFor)
		}
		if t.onPlanes {
			t.tab = planesTab
		}
		s, err := a.open()
		if err != nil {
			return err
		}
		t.asker, t.agent = s, a.agent
		out := cmd.OutOrStdout()
		f, terminal := out.(*os.File)
		terminal = terminal && term.IsTerminal(int(f.Fd())) && term.IsTerminal(int(os.Stdin.Fd()))
		if a.output == "json" || once || !terminal {
			return t.once(cmd.Context(), out, a.output == "json")
		}
		t.colours = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		return t.live(cmd.Context(), f)
	}
	return cmd
}

// top shows what a server does. What is on its screen follows from its fields; live fills them.
type top struct {
	*asker
	agent  string // what top calls itself
	window time.Duration
	own    bool // its own requests are shown
	// onPlanes says that the planes were asked for.
	onPlanes bool
	colours  bool

	now     time.Time
	seen    []seen // oldest first
	bytes   int    // of the texts in seen
	trends  trends
	server  state
	trouble error // why the server does not tell what it does; nil: it does

	// later has the requests that came while the screen is paused.
	later  []seen
	paused bool

	tab    int // of tabs
	sorts  [len(tabs)]int
	places []*place // that were opened, the last one is shown; empty: the tab
	chosen cursor   // in the tab
	filter string
	typing bool // keys go to the filter
	help   bool
}

// Requests are kept for a while after the window has passed, so that what was opened has something to show.
const (
	keepFor   = 2 * time.Minute
	keepAfter = 5000
)

// add takes a request up that has come now.
func (t *top) add(rec *v1alpha1.Record, now time.Time) {
	s := seenOf(rec, now)
	s.own = t.agent != "" && rec.UserAgent == t.agent
	if len(t.seen)+len(t.later) >= maxSeen || t.bytes+s.size() > maxSeenBytes {
		return
	}
	t.bytes += s.size()
	if t.paused {
		t.later = append(t.later, s)
		return
	}
	t.take(s)
}

func (t *top) take(s seen) {
	t.seen = append(t.seen, s)
	if t.own || !s.own {
		t.trends.count(&s)
	}
}

// pass lets time pass, unless the screen is paused, and drops what is too old. It goes by when requests came here, whatever the server's
// clock says.
func (t *top) pass(now time.Time) {
	if t.paused {
		return
	}
	for _, s := range t.later {
		t.take(s)
	}
	t.now, t.later = now, nil
	n := 0
	for n < len(t.seen) && t.now.Sub(t.seen[n].came) > t.window && (len(t.seen)-n > keepAfter || t.now.Sub(t.seen[n].came) > keepFor) {
		t.bytes -= t.seen[n].size()
		n++
	}
	if n > 0 {
		t.seen = append(t.seen[:0:0], t.seen[n:]...)
	}
}

// once collects for a window and prints.
func (t *top) once(ctx context.Context, out io.Writer, asJSON bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	records, failed := make(chan *v1alpha1.Record), make(chan error, 1)
	go func() { failed <- t.follow(ctx, records) }()
	before, looked := state{}, make(chan state, 1)
	go func() { looked <- t.look(ctx, state{}) }() // from two looks follows what the server did between them
	begin := time.Now()
	end := time.After(t.window)
	for {
		select {
		case rec := <-records:
			t.add(rec, time.Now())
			continue
		case before = <-looked:
			continue
		case err := <-failed:
			return err
		case <-end:
		}
		break
	}
	t.now = begin.Add(t.window) // however late it is: all that was collected counts
	t.server = t.look(ctx, before)
	if t.server.trouble != nil {
		return t.server.trouble
	}
	if t.onPlanes && !t.server.planes.told {
		return errors.New("the server has no planes (kanzen serve --planes), or you may not read planestats.flightrecorder.kanzen.io")
	}
	if asJSON {
		return printJSON(out, t.report())
	}
	for _, l := range t.summary(200) {
		tell(out, "%s\n", l.text(false))
	}
	return nil
}

// report is what programs are told.
func (t *top) report() any {
	out := map[string]any{"window": t.window.String(), "watches": t.server.watches, "webhooks": t.server.webhooks, "server": t.server.report()}
	if t.server.planes.told {
		out["planes"], out["planeServers"] = t.server.planes.report(), t.server.planes.serversReport()
	}
	for n, name := range groupings {
		out[name] = t.rows(n)
	}
	return out
}
