//go:build linux

// Cmd runs kubectl's own test suite, `make test-cmd` of Kubernetes, on kanzen, or with -peer on kube-apiserver. It is run in test/, as
// root:
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
	"maps"
	"os"
	"os/signal"
	"path/filepath"
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
	flag.BoolVar(&s.peer, "peer", false, "run kube-apiserver in place of kanzen")
	flag.StringVar(&s.programs, "programs", "../bench/peer/bin", "folder of the programs of Kubernetes, and of etcd; those that are missing are built")
	flag.StringVar(&s.cache, "cache", "../bin/test-cmd", "folder for copies of the scripts, and for what they say")
	flag.StringVar(&s.evidence, "evidence", "../docs/evidence/test-cmd.json", "file of evidence, of the last runs of all groups; none if empty")
	flag.DurationVar(&s.limit, "limit", 20*time.Minute, "for each group; when it is over, all that follow are not run")
	flag.Parse()
	s.groups = flag.Args()
	if err := s.complete(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return runGroups(ctx, s)
}

// server is the name of the server in results.
func (s settings) server() string {
	if s.peer {
		return evidence.Peer
	}
	return evidence.Kanzen
}

// out is the folder of a run.
func (s settings) out() string { return filepath.Join(s.cache, s.server()) }

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
	if _, err := os.Stat(s.kanzen); err != nil && !s.peer {
		return fmt.Errorf("make build builds kanzen: %w", err)
	}
	return nil
}

// runGroups runs the groups on the server, and compares what they say with what they last said on the other one. What some groups say counts in
// the last run of all groups on this version of the server.
func runGroups(ctx context.Context, s settings) error {
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
	t, err := prepare(ctx, s, module)
	if err != nil {
		return err
	}
	fmt.Printf("%d groups on %s\n", len(chosen), t.version)
	ran, err := t.run(ctx, s, chosen)
	if err != nil {
		return err
	}
	runs, err := evidence.LastRuns[*result](s.cache)
	if err != nil {
		return err
	}
	whole := len(s.groups) == 0
	if last := runs[s.server()]; !whole && last != nil && last.Version == ran.Version {
		maps.Copy(last.Groups, ran.Groups)
		ran, whole = last, true
	}
	runs[s.server()] = ran
	fmt.Print(tableOf(chosen, runs))
	if whole {
		if err := s.keep("k8s.io/kubernetes "+version, known, runs); err != nil {
			return err
		}
	}
	return verdict(chosen, s.server(), runs, s.out())
}

// verdict is an error if a group does not pass on the server. A group that is known not to pass on kube-apiserver needs not pass on kanzen.
func verdict(chosen []group, server string, runs map[string]*result, out string) error {
	var failing []string
	for _, g := range chosen {
		peer, compared := runs[evidence.Peer]
		if runs[server].of(g.name).State != passed && (server == evidence.Peer || !compared || peer.of(g.name).State == passed) {
			failing = append(failing, g.name)
		}
	}
	if len(failing) > 0 {
		return fmt.Errorf("these groups do not pass on %s: %s; what they print is in %s", server, strings.Join(failing, " "), out)
	}
	return nil
}
