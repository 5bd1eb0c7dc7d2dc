package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/test/suite"
)

// runPackage runs a package's tests on kanzen, and those that do not pass there on kube-apiserver.
func runPackage(m *module, binary, pkg, tests string, skips map[string]string, s settings) *packageResult {
	p := &packageResult{Package: pkg, Tests: map[string]map[string]suite.Outcome{}, Skipped: skips, Reasons: map[string]string{}}
	began := time.Now()
	run := run{module: m, binary: binary, pkg: pkg, skips: skips, settings: s}
	p.Tests[kanzen], p.Reasons = run.on(server{kanzen, s.kanzen}, tests)
	p.Seconds = int(time.Since(began).Seconds())
	if failed := p.failed(); s.peer != "" && len(failed) > 0 {
		p.Tests[peer], _ = run.on(server{peer, s.peer}, "^("+strings.Join(failed, "|")+")$")
	}
	return p
}

// run is a package's test binary and what is left out of it.
type run struct {
	module      *module
	binary, pkg string
	skips       map[string]string
	settings    settings
}

// on runs the tests that the expression matches.
func (r *run) on(server server, tests string) (map[string]suite.Outcome, map[string]string) {
	if tests == "" {
		tests = "."
	}
	log, err := suite.Create(filepath.Join(r.settings.cache, "logs", server.name, strings.ReplaceAll(r.pkg, "/", "-")+".log"))
	if err != nil {
		fmt.Printf("%s on %s: %v\n", r.pkg, server.name, err)
		return map[string]suite.Outcome{}, map[string]string{}
	}
	defer log.Close()
	b := suite.Binary{Path: r.binary, Dir: filepath.Join(r.module.dir, "test/integration", r.pkg), Prepare: func(tmp string) ([]string, error) {
		env := append(os.Environ(), "KUBE_APISERVER="+server.path, "TEST_SRCDIR="+tmp, "TEST_WORKSPACE=src", "PATH="+filepath.Dir(r.settings.etcd)+":"+os.Getenv("PATH"))
		return env, r.module.fixtures(filepath.Join(tmp, "src"))
	}}
	results, err := b.Run(tests, sorted(r.skips), r.settings.timeout, log)
	if err != nil {
		fmt.Printf("%s on %s: %v\n", r.pkg, server.name, err)
	}
	return results.Outcomes, results.Reasons
}
