// Upstream runs Kubernetes' own integration tests on kanzen and, with -peer, those that do not pass there on kube-apiserver. It is run in
// test/:
//
//	go run ./upstream [flags] PACKAGE[:TESTS]...
//
// A package is a folder of test/integration, TESTS a regular expression. See docs/upstream-integration.md.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/test/evidence"
	"github.com/kanzen-io/kanzen/test/suite"
)

func main() {
	var s settings
	flag.StringVar(&s.kanzen, "kanzen", "../bin/kanzen", "the program to test; it is started under the name kube-apiserver")
	flag.StringVar(&s.peer, "peer", "", "kube-apiserver, to run on it too what does not pass on kanzen")
	flag.StringVar(&s.etcd, "etcd", "../bench/peer/bin/etcd", "etcd")
	flag.StringVar(&s.cache, "cache", "../bin/upstream", "folder for the copy of the kubernetes module, test binaries, logs and results")
	flag.DurationVar(&s.timeout, "timeout", 20*time.Minute, "for each package")
	flag.StringVar(&s.results, "results", "", "file of the results (JSON), to which those of this run are added (default CACHE/results.json)")
	flag.StringVar(&s.evidence, "evidence", "../docs/evidence/upstream-integration.json", "file of evidence, to which whole packages of this run are added; none if empty")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if s.results == "" {
		s.results = filepath.Join(s.cache, "results.json")
	}
	if err := runAll(s, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type settings struct {
	kanzen, peer, etcd, cache, results, evidence string
	timeout                                      time.Duration
}

func runAll(s settings, selections []string) error {
	if err := s.check(); err != nil {
		return err
	}
	module, err := prepare(s.cache)
	if err != nil {
		return err
	}
	skips, err := readSkips("upstream/skipped.txt")
	if err != nil {
		return err
	}
	versions, err := s.versions()
	if err != nil {
		return err
	}
	all, err := readResults(s.results)
	if err != nil {
		return err
	}
	differ := false
	for _, selection := range selections {
		pkg, tests, _ := strings.Cut(selection, ":")
		fmt.Printf("%s: building\n", pkg)
		binary, err := module.build(pkg)
		if err != nil {
			return err
		}
		p := runPackage(module, binary, pkg, tests, skips[pkg], s)
		differ = p.print() || differ
		all.add(p, tests != "")
		if tests == "" && s.evidence != "" {
			if err := p.keep(s.evidence, module.name, versions); err != nil {
				return err
			}
		}
		if err := all.write(s.results); err != nil {
			return err
		}
	}
	all.table()
	if differ {
		return fmt.Errorf("kanzen differs; logs are in %s", filepath.Join(s.cache, "logs"))
	}
	return nil
}

// The names of the servers, in results and logs.
const (
	kanzen = evidence.Kanzen
	peer   = evidence.Peer
)

// server is a program that tests run on.
type server struct{ name, path string }

// check makes the paths absolute, and gives kanzen the name under which it serves as kube-apiserver does.
func (s *settings) check() error {
	for _, path := range []*string{&s.kanzen, &s.peer, &s.etcd, &s.cache, &s.results, &s.evidence} {
		if *path == "" {
			continue
		}
		var err error
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	for _, program := range []string{s.kanzen, s.peer, s.etcd} {
		if program == "" {
			continue
		}
		if _, err := os.Stat(program); err != nil {
			return err
		}
	}
	link := filepath.Join(s.cache, "kanzen", "kube-apiserver")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	_ = os.Remove(link)
	if err := os.Symlink(s.kanzen, link); err != nil {
		return err
	}
	s.kanzen = link
	return nil
}

// versions asks the servers for theirs.
func (s *settings) versions() (map[string]string, error) {
	versions := map[string]string{}
	for name, program := range map[string]string{kanzen: s.kanzen, peer: s.peer} {
		if program == "" {
			continue
		}
		var err error
		if versions[name], err = suite.Version(program); err != nil {
			return nil, err
		}
	}
	return versions, nil
}

// readSkips reads lines of "package test reason"; empty lines and those that begin with # are remarks. It maps a package to its tests
// and these to reasons.
func readSkips(path string) (map[string]map[string]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	skips := map[string]map[string]string{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.SplitN(line, " ", 3)
		if len(fields) < 3 {
			return nil, fmt.Errorf("%s: %q is no \"package test reason\"", path, line)
		}
		if skips[fields[0]] == nil {
			skips[fields[0]] = map[string]string{}
		}
		skips[fields[0]][fields[1]] = fields[2]
	}
	return skips, nil
}
