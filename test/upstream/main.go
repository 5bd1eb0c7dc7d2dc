// Upstream runs Kubernetes' own integration tests on kanzen and, with -peer, on kube-apiserver beside it. It is run in test/:
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
	"slices"
	"strings"
	"time"
)

func main() {
	kanzen := flag.String("kanzen", "../bin/kanzen", "the program to test; it is started under the name kube-apiserver")
	peer := flag.String("peer", "", "kube-apiserver, to run each package on it too, at the same time")
	etcd := flag.String("etcd", "../bench/peer/bin/etcd", "etcd")
	cache := flag.String("cache", "../bin/upstream", "folder for the copy of the kubernetes module, test binaries, logs and results")
	timeout := flag.Duration("timeout", 20*time.Minute, "for each package")
	results := flag.String("results", "", "file of the results (JSON), to which those of this run are added (default CACHE/results.json)")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if *results == "" {
		*results = filepath.Join(*cache, "results.json")
	}
	if err := run(settings{kanzen: *kanzen, peer: *peer, etcd: *etcd, cache: *cache, timeout: *timeout, results: *results}, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type settings struct {
	kanzen, peer, etcd, cache, results string
	timeout                            time.Duration
}

func run(s settings, selections []string) error {
	var err error
	for _, path := range []*string{&s.kanzen, &s.etcd, &s.cache, &s.results} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	module, err := prepare(s.cache)
	if err != nil {
		return err
	}
	skips, err := readSkips("upstream/skipped.txt")
	if err != nil {
		return err
	}
	servers, err := s.servers()
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
		p := runPackage(module, binary, pkg, tests, skips[pkg], servers, s)
		all.add(p, tests != "")
		differ = p.print() || differ
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

// server is a program that tests run on.
type server struct{ name, path string }

// servers gives kanzen the name that it serves under as kube-apiserver does.
func (s settings) servers() ([]server, error) {
	link := filepath.Join(s.cache, "kanzen", "kube-apiserver")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return nil, err
	}
	_ = os.Remove(link)
	if err := os.Symlink(s.kanzen, link); err != nil {
		return nil, err
	}
	servers := []server{{"kanzen", link}}
	if s.peer != "" {
		peer, err := filepath.Abs(s.peer)
		if err != nil {
			return nil, err
		}
		servers = append(servers, server{"kube-apiserver", peer})
	}
	for _, file := range append([]string{s.etcd}, servers[len(servers)-1].path, s.kanzen) {
		if _, err := os.Stat(file); err != nil {
			return nil, err
		}
	}
	return servers, nil
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

// skipPattern matches the names of the tests and nothing else.
func skipPattern(skips map[string]string) string {
	var names []string
	for name := range skips {
		names = append(names, "^"+strings.ReplaceAll(name, "/", "$/^")+"$")
	}
	slices.Sort(names)
	return strings.Join(names, "|")
}
