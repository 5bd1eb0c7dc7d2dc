// Others runs test suites of other projects, as they are in their modules, on kanzen and on kube-apiserver, and keeps what they say in
// docs/evidence. It is run in test/:
//
//	go run ./others [flags] [SUITE...]
//
// suites.go names the suites. See docs/others.md.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kanzen-io/kanzen/test/evidence"
)

func main() {
	var s settings
	flag.StringVar(&s.kanzen, "kanzen", "../bin/kanzen", "the program to test")
	flag.StringVar(&s.peer, "peer", "../bench/peer/bin", "folder of kube-apiserver and etcd")
	flag.StringVar(&s.cache, "cache", "../bin/others", "folder for copies of modules, test binaries and logs")
	flag.StringVar(&s.out, "out", "../docs/evidence/others.json", "file of the results, to which those of this run are added")
	flag.StringVar(&s.packages, "packages", "", "run only packages whose path matches this regular expression; results are then printed and not kept")
	flag.DurationVar(&s.timeout, "timeout", 20*time.Minute, "for each package on each server")
	flag.Parse()
	log.SetLogger(logr.Discard()) // of envtest
	if err := runAll(s, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type settings struct {
	kanzen, peer, cache, out, packages string
	timeout                            time.Duration
}

func runAll(s settings, names []string) error {
	for _, path := range []*string{&s.kanzen, &s.peer, &s.cache} {
		var err error
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	order := make([]string, len(targets))
	for i, t := range targets {
		order[i] = t.name
	}
	for _, name := range names {
		if !slices.Contains(order, name) {
			return fmt.Errorf("there is no suite %q; there are %q", name, order)
		}
	}
	servers, err := makeServers(s)
	if err != nil {
		return err
	}
	differ := false
	for _, t := range targets {
		if len(names) > 0 && !slices.Contains(names, t.name) {
			continue
		}
		result, err := run(t, servers, s, func(result evidence.Suite) error {
			if s.packages != "" {
				return nil
			}
			return keep(result, order, s.out)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		differ = report(result) || differ
	}
	if differ {
		return fmt.Errorf("kanzen differs; logs are in %s", filepath.Join(s.cache, "logs"))
	}
	return nil
}

func keep(result evidence.Suite, order []string, path string) error {
	kept, err := evidence.Read(path)
	if err != nil {
		return err
	}
	kept.Title, kept.Command = "Test suites of other projects", "make others"
	kept.Text = "runs the suites of these projects, unchanged, from their modules ([others.md](others.md)): all packages that start a server with envtest. A test in\nparts counts as its parts, and Ginkgo's specs as tests."
	kept.Put(result, order)
	return kept.Write(path)
}

// report prints what a suite did, and tells whether a test passes on kube-apiserver and not on kanzen.
func report(s evidence.Suite) (differ bool) {
	for _, name := range []string{evidence.Kanzen, evidence.Peer} {
		of := s.Servers[name]
		fmt.Printf("%s on %s: %d pass, %d fail, %d skip (%d s)\n", s.Name, name, of.Passed, of.Failed, of.Skipped, of.Seconds)
	}
	for _, d := range s.Differences {
		fmt.Printf("  differs: %s: %s, on kube-apiserver: %s\n", d.Test, d.Kanzen, d.Peer)
		differ = differ || d.Peer == "pass"
	}
	return differ
}
