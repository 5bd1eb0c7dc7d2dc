package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/test/evidence"
	"github.com/kanzen-io/kanzen/test/suite"
)

// run runs a suite, package by package, on all servers. What it found out so far is kept after each package, because a suite can take hours.
func run(t target, servers []server, s settings, kept func(evidence.Suite) error) (evidence.Suite, error) {
	result, err := evidence.Now()
	if err != nil {
		return result, err
	}
	result.Name, result.Module, result.Known = t.name, strings.Replace(t.module, "@", " ", 1), t.known
	for _, tests := range slices.Sorted(maps.Keys(t.leftOut)) {
		result.LeftOut = append(result.LeftOut, evidence.Reason{Tests: tests, Reason: t.leftOut[tests]})
	}
	dir := filepath.Join(s.cache, t.name)
	fmt.Printf("%s: copying and compiling %s\n", t.name, t.module)
	if err := copyTarget(t, dir); err != nil {
		return result, err
	}
	defer os.RemoveAll(dir)
	packages, err := packagesOf(dir, t, s.packages)
	if err != nil {
		return result, err
	}
	result.Of = len(packages)
	all := map[string]*tests{}
	for _, server := range servers {
		all[server.name] = newTests()
	}
	for _, p := range packages {
		if err := runPackage(t, p, dir, servers, s, all); err != nil {
			return result, err
		}
		result.Packages = append(result.Packages, p.path)
		for _, server := range servers {
			result.Servers[server.name] = all[server.name].server(server.version)
		}
		result.Differences = differences(all[evidence.Kanzen].outcomes, all[evidence.Peer].outcomes)
		result.Skipped = all[evidence.Kanzen].skipped()
		if err := kept(result); err != nil {
			return result, err
		}
	}
	return result, nil
}

func copyTarget(t target, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	plain := func(_ string, b []byte) ([]byte, os.FileMode, error) { return b, suite.Mode(b), nil }
	modules := map[string]string{".": t.module}
	maps.Copy(modules, t.nested)
	for _, folder := range slices.Sorted(maps.Keys(modules)) { // the module itself first
		_, source, err := suite.Download(".", modules[folder])
		if err != nil {
			return err
		}
		if err := suite.CopyModule(source, filepath.Join(dir, folder), plain); err != nil {
			return err
		}
	}
	if t.prepare == "" {
		return nil
	}
	return command(dir, "sh", "-ec", t.prepare)
}

// testPackage is a package with tests that start a server.
type testPackage struct {
	path, dir string
	ginkgo    bool
}

const envtestPackage = "sigs.k8s.io/controller-runtime/pkg/envtest"

// packagesOf compiles all packages at once, and finds those whose tests start a server and whose paths match the expression.
func packagesOf(dir string, t target, expression string) ([]testPackage, error) {
	only, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	args := append([]string{"list", "-test", "-export", "-deps", "-f", "{{/* nothing */}}"}, t.goFlags()...)
	if err := command(dir, "go", append(args, t.packages...)...); err != nil {
		return nil, err
	}
	args = append([]string{"list", "-test", "-f", `{{if eq .Name "main"}}{{.ImportPath}} {{.Dir}} {{join .Deps ","}}{{end}}`}, t.goFlags()...)
	cmd := exec.Command("go", append(args, t.packages...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []testPackage
	for line := range strings.Lines(string(out)) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 3)
		path, isTest := strings.CutSuffix(fields[0], ".test")
		if !isTest || len(fields) < 3 {
			continue
		}
		deps := strings.Split(fields[2], ",")
		if slices.Contains(deps, envtestPackage) && only.MatchString(path) {
			packages = append(packages, testPackage{path, fields[1], slices.Contains(deps, "github.com/onsi/ginkgo/v2")})
		}
	}
	return packages, nil
}

// testBinary is that of the package being run, in the module's folder.
const testBinary = "package.test"

// runPackage builds the tests of a package, and adds how they end on each server.
func runPackage(t target, p testPackage, dir string, servers []server, s settings, all map[string]*tests) error {
	if err := command(dir, "go", append(append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", testBinary}, t.goFlags()...), p.path)...); err != nil {
		return err
	}
	for _, server := range servers {
		found, err := runOn(server, t, p, dir, s)
		if err != nil {
			return err
		}
		of := found.server("")
		fmt.Printf("  %s on %s: %d pass, %d fail, %d skip (%.0f s)\n", p.path, server.name, of.Passed, of.Failed, of.Skipped, found.took.Seconds())
		all[server.name].add(found)
	}
	return nil
}

// runOn runs the tests of a package on a server.
func runOn(server server, t target, p testPackage, dir string, s settings) (*tests, error) {
	log, err := suite.Create(filepath.Join(s.cache, "logs", server.name, t.name, strings.ReplaceAll(p.path, "/", "-")+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	report := filepath.Join(dir, "report.json")
	_ = os.Remove(report)
	began, env := time.Now(), slices.Concat(os.Environ(), server.env)
	if t.crds != "" {
		kubeconfig := filepath.Join(dir, "kubeconfig")
		stop, err := server.start(filepath.Join(dir, t.crds), kubeconfig)
		if err != nil {
			return nil, err
		}
		defer stop()
		env = append(env, "KUBECONFIG="+kubeconfig)
	}
	b := suite.Binary{Path: filepath.Join(dir, testBinary), Dir: p.dir, Prepare: func(string) ([]string, error) { return env, nil }}
	if p.ginkgo {
		// The same order on both.
		b.Args = []string{"-ginkgo.seed=1", "-ginkgo.no-color", "-ginkgo.json-report=" + report}
		for tests := range t.leftOut {
			b.Args = append(b.Args, "-ginkgo.skip="+tests)
		}
	}
	results, err := b.Run(".", slices.Sorted(maps.Keys(t.leftOut)), s.timeout, log)
	if err != nil {
		return nil, err
	}
	found := newTests()
	found.took = time.Since(began)
	found.addGo(p.path, results)
	return found, found.addSpecs(p.path, report)
}

// goFlags are those that the go command gets, so that it compiles the same whenever it is asked.
func (t target) goFlags() []string {
	if t.tags == "" {
		return nil
	}
	return []string{"-tags=" + t.tags}
}
