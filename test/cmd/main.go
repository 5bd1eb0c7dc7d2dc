//go:build linux

// Cmd runs kubectl's own test suite, `make test-cmd` of Kubernetes, on kanzen, and with -peer also on kube-apiserver. It is run in test/,
// as root:
//
//	go run ./cmd [flags] [GROUP...]
//
// See docs/test-cmd.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kanzen-io/kanzen/test/evidence"
	"github.com/kanzen-io/kanzen/test/suite"
)

// settings are what flags say. The paths are absolute.
type settings struct {
	kanzen, programs, cache, evidence string
	peer                              bool
	limit                             time.Duration
	groups                            []string
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) == 4 && os.Args[1] == scriptsStage {
		return scripts(os.Args[2], os.Args[3])
	}
	var s settings
	flag.StringVar(&s.kanzen, "kanzen", "../bin/kanzen", "kanzen; it is started under the name kube-apiserver")
	flag.BoolVar(&s.peer, "peer", false, "first run the groups on kube-apiserver")
	flag.StringVar(&s.programs, "programs", "../bench/peer/bin", "folder of the programs of Kubernetes, and of etcd; those that are missing are built")
	flag.StringVar(&s.cache, "cache", "../bin/test-cmd", "folder for copies of the scripts, and for what they say")
	flag.StringVar(&s.evidence, "evidence", "../docs/evidence/test-cmd.json", "file of evidence, for a run of all groups on both servers; none if empty")
	flag.DurationVar(&s.limit, "limit", 2*time.Hour, "for all groups on one server")
	flag.Parse()
	s.groups = flag.Args()
	if err := s.complete(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return both(ctx, s)
}

// complete makes the paths absolute, and says what is wrong.
func (s *settings) complete() error {
	if os.Geteuid() != 0 {
		return errors.New("the scripts need root: they run in a network and with folders of their own")
	}
	for _, path := range []*string{&s.kanzen, &s.programs, &s.cache, &s.evidence} {
		if *path == "" {
			continue
		}
		var err error
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	for _, path := range []string{s.cache, s.programs, s.kanzen} {
		for _, own := range ownFolders {
			if strings.HasPrefix(path, own+"/") {
				return fmt.Errorf("%s: the scripts have a %s of their own and would not see it; choose another folder", path, own)
			}
		}
	}
	if _, err := os.Stat(s.kanzen); err != nil {
		return fmt.Errorf("make build builds kanzen: %w", err)
	}
	return nil
}

// both runs the groups on the servers, one after the other, and compares what they say.
func both(ctx context.Context, s settings) error {
	if err := suite.Install(ctx, packages); err != nil {
		return err
	}
	version, module, err := suite.Download("../bench/peer", "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	known, err := readGroups(module)
	if err != nil {
		return err
	}
	chosen, err := choose(known, s.groups)
	if err != nil {
		return err
	}
	servers := []string{evidence.Kanzen}
	if s.peer {
		servers = []string{evidence.Peer, evidence.Kanzen}
	}
	runs := map[string]*result{}
	for _, server := range servers {
		t, err := prepare(ctx, s, server, module)
		if err != nil {
			return err
		}
		fmt.Printf("%d groups on %s\n", len(chosen), t.version)
		if runs[server], err = t.run(ctx, s, chosen); err != nil {
			return err
		}
	}
	table := tableOf(chosen, runs)
	fmt.Print(table)
	if err := os.WriteFile(filepath.Join(s.cache, "table.md"), []byte(table), 0o644); err != nil {
		return err
	}
	if s.peer && s.evidence != "" && len(s.groups) == 0 {
		if err := keep(s.evidence, "k8s.io/kubernetes "+version, chosen, runs); err != nil {
			return err
		}
	}
	return verdict(chosen, runs, s.cache)
}

// verdict is an error if a group does not pass on kanzen, unless it is known not to pass on kube-apiserver either.
func verdict(chosen []group, runs map[string]*result, cache string) error {
	var failed []string
	for _, g := range chosen {
		peer, compared := runs[evidence.Peer]
		if runs[evidence.Kanzen].of(g.name).state != passed && (!compared || peer.of(g.name).state == passed) {
			failed = append(failed, g.name)
		}
	}
	if len(failed) > 0 {
		slices.Sort(failed)
		return fmt.Errorf("these groups do not pass on kanzen: %s; what they print is in %s", strings.Join(failed, " "), filepath.Join(cache, evidence.Kanzen))
	}
	return nil
}
