// Command bench gives kube-apiserver (with its etcd) and kanzen the same load
// and compares what it costs them. See README.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kanzen-io/kanzen/bench/side"
)

func main() {
	// The first signal ends everything in order; a second one at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := command(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context) error {
	b := &bench{crds: 300, crs: 3000, manyCRDs: 5000, watchers: 200, events: 1000, minCPU: 1500 * time.Millisecond, quiet: 3 * time.Second, results: &results{}, stored: map[string][]byte{}}
	flag.IntVar(&b.pods, "pods", 3000, "pods to create and list")
	runs := flag.Int("runs", 0, "runs; the report has their medians; 0: 3, and 1 with -tails")
	quick := flag.Bool("quick", false, "a tenth of everything, once: to see that it works; nothing is written")
	only := flag.String("only", "", "names of what to measure, separated by commas; nothing is written")
	out := flag.String("out", "", "directory for the report and its drawing (default docs/benchmarks of this repository)")
	peerBin := flag.String("peer-bin", os.Getenv("PEER_BIN"), "directory with kube-apiserver and etcd; none: they are built into peer/bin (also as PEER_BIN)")
	kanzen := flag.String("kanzen", "", "a kanzen binary; none: it is built from this repository")
	flag.StringVar(&b.profiles, "profiles", "", "directory for CPU profiles of each load on each side, taken after it was measured")
	grow := flag.Bool("growth", false, "measure instead what kanzen costs as objects, watchers, definitions and clients become more")
	growPeer := flag.Bool("growth-peer", false, "the same, of kube-apiserver too, with up to a tenth of the objects and definitions")
	tails := flag.Bool("tails", false, "measure instead how long requests take that come at a fixed rate")
	bare := flag.String("bare", "", "be the bare server at this address (what this program starts by itself)")
	flag.StringVar(&b.bodies, "bodies", "", "directory of what the bare server serves")
	commits := flag.String("commits", "", "commit to a bare Pebble in this directory (what this program starts by itself)")
	flag.Parse()
	if *bare != "" {
		return side.ServeBare(ctx, *bare, b.bodies)
	}
	if *commits != "" {
		return serveCommits(ctx, *commits, os.Stdin, os.Stdout)
	}
	if *quick {
		b.crds, b.crs, b.manyCRDs = 30, 300, 500
		b.pods, b.events, b.minCPU, *runs = min(b.pods, 300), 100, 200*time.Millisecond, 1
	}
	if *only != "" {
		b.only = strings.Split(*only, ",")
	}
	names, usual := b.names(), 3
	switch {
	case *grow || *growPeer:
		names = growthParts
	case *tails:
		names, usual = tailNames, 1
	}
	if *runs == 0 {
		*runs = usual
	}
	if err := b.valid(*runs, names, flag.Args()); err != nil {
		return err
	}

	dir, err := side.Module(ctx)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "kanzen-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	b.bodies = filepath.Join(tmp, "bodies")
	for _, d := range []string{b.bodies, b.profiles} {
		if d == "" {
			continue
		}
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	order := []string{side.Peer, side.Kanzen, side.Pebble}
	if b.programs, err = side.Build(ctx, *kanzen, *peerBin, order...); err != nil {
		return err
	}

	which := "of a binary that was given"
	if *kanzen == "" {
		which = commit(ctx, dir)
	}
	if *out == "" && !*quick && *only == "" && b.profiles == "" {
		*out = filepath.Join(filepath.Dir(dir), "docs", "benchmarks")
	}
	if *grow || *growPeer {
		return b.grow(ctx, *quick, *growPeer, *out, which)
	}
	if *tails {
		return b.measureTails(ctx, *runs, *quick, *out, which)
	}
	for i := range *runs {
		progress("run %d of %d", i+1, *runs)
		if err := b.run(ctx, order); err != nil {
			return err
		}
		slices.Reverse(order)
	}

	conditions := b.results.conditions(*runs, which)
	fmt.Print(conditions, "\n", b.results.tables())
	if *out == "" {
		return nil
	}
	return b.results.write(*out, conditions)
}

// valid checks what the command line said.
func (b *bench) valid(runs int, names, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	if b.pods < 100 || runs < 1 {
		return fmt.Errorf("-pods must be 100 or more and -runs 1 or more")
	}
	for _, name := range b.only {
		if !slices.Contains(names, name) {
			return fmt.Errorf("-only: %q is none of %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

// commit names the state of the repository.
func commit(ctx context.Context, dir string) string {
	cmd := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "of an unknown commit"
	}
	return strings.TrimSpace(string(out))
}
