package test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
)

// TestKubectl runs the scripts in testdata/kubectl, each with a server of its
// own. Beside testscript's commands they have
//
//	kubectl ARGS              run kubectl
//	eventually kubectl ARGS   run kubectl until it succeeds
//	capture NAME kubectl ARGS put what kubectl prints into a variable
func TestKubectl(t *testing.T) {
	t.Parallel()
	testscript.Run(t, kubectlScripts("testdata/kubectl", binaries.dir, func(*testscript.Env) {}))
}

// kubectlScripts are the scripts of a folder, run with the kubectl that is in
// the folder bin.
func kubectlScripts(scripts, bin string, setup func(env *testscript.Env)) testscript.Params {
	return testscript.Params{
		Dir: scripts,
		Setup: func(env *testscript.Env) error {
			k := serve(env.T().(testing.TB), filepath.Join(env.WorkDir, ".kanzen"))
			env.Setenv("KUBECONFIG", k.kubeconfig())
			env.Setenv("SERVER", "https://"+k.address)
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
			setup(env)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"kubectl": func(ts *testscript.TestScript, neg bool, args []string) {
				if err := ts.Exec("kubectl", args...); (err != nil) != neg {
					ts.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
				}
			},
			"eventually": func(ts *testscript.TestScript, neg bool, args []string) {
				deadline := time.Now().Add(time.Minute)
				for {
					err := ts.Exec(args[0], args[1:]...)
					if (err != nil) == neg {
						return
					}
					if time.Now().After(deadline) {
						ts.Fatalf("%s: %v", strings.Join(args, " "), err)
					}
					time.Sleep(100 * time.Millisecond)
				}
			},
			"capture": func(ts *testscript.TestScript, neg bool, args []string) {
				if err := ts.Exec(args[1], args[2:]...); err != nil || neg {
					ts.Fatalf("%s: %v", strings.Join(args[1:], " "), err)
				}
				ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
			},
		},
	}
}

// runKubectl runs kubectl against a server.
func runKubectl(t *testing.T, k *kanzen, args ...string) string {
	t.Helper()
	args = append([]string{"--kubeconfig", k.kubeconfig(), "--cache-dir", t.TempDir()}, args...)
	stdout, stderr, code := output(t, binaries.kubectl, args...)
	if code != 0 {
		t.Fatalf("kubectl %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// TestKubectlWatch follows a watch line by line.
func TestKubectlWatch(t *testing.T) {
	t.Parallel()
	k := serve(t, t.TempDir(), noRootCA)
	runKubectl(t, k, "create", "configmap", "first")
	for _, c := range []struct{ args, first, second, third, fourth string }{
		{"-o name", "configmap/first", "configmap/second", "configmap/second", "configmap/second"},
		{"", "NAME", "first", "second", "second"},
		{"-o name --watch-only", "configmap/second", "configmap/second", "", ""},
		{"--output-watch-events --no-headers", "ADDED first", "ADDED second", "MODIFIED second", "DELETED second"},
	} {
		args := append([]string{"--kubeconfig", k.kubeconfig(), "--cache-dir", t.TempDir(), "get", "configmaps", "-w"}, strings.Fields(c.args)...)
		w := start(t, binaries.kubectl, args...)
		wants := []string{c.first, c.second, c.third, c.fourth}
		for n, want := range wants {
			if n == 0 && !strings.Contains(c.args, "only") || n == 1 && c.first == "NAME" {
				expectLine(t, c.args, w, want)
				wants[n] = ""
			}
		}
		if strings.Contains(c.args, "only") {
			// Nothing tells when such a watch is on.
			within(t, 20*time.Second, "watch -o name --watch-only sees a change", func(context.Context) bool {
				runKubectl(t, k, "annotate", "--overwrite", "configmap", "first", fmt.Sprintf("n=%d", time.Now().UnixNano()))
				return len(w.stdout) > 0
			})
			w.kill()
			continue
		}
		runKubectl(t, k, "create", "configmap", "second")
		runKubectl(t, k, "label", "configmap", "second", "a=b")
		runKubectl(t, k, "delete", "configmap", "second")
		for _, want := range wants {
			if want != "" {
				expectLine(t, c.args, w, want)
			}
		}
		w.kill()
	}
}

func expectLine(t *testing.T, what string, p *process, want string) {
	t.Helper()
	if got := strings.Join(strings.Fields(p.line()), " "); !strings.HasPrefix(got, want) {
		t.Errorf("get -w %s: %q, want %q", what, got, want)
	}
}

// TestAPIResources holds what kubectl says is served against what
// kube-apiserver serves.
func TestAPIResources(t *testing.T) {
	t.Parallel()
	k := serve(t, t.TempDir(), "--flight-recorder-memory=0", "--extensions=") // their groups are not kube-apiserver's
	var got []string
	for _, l := range strings.Split(strings.TrimSpace(runKubectl(t, k, "api-resources", "-o", "wide", "--no-headers")), "\n") {
		got = append(got, strings.Join(strings.Fields(l), " "))
	}
	var want, versions []string
	for _, file := range []string{"discovery-api.json", "discovery-apis.json"} {
		b, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		var groups apidiscoveryv2.APIGroupDiscoveryList
		if err := json.Unmarshal(b, &groups); err != nil {
			t.Fatal(err)
		}
		for _, g := range groups.Items {
			for n, v := range g.Versions {
				gv := strings.TrimPrefix(g.Name+"/"+v.Version, "/")
				versions = append(versions, gv)
				for _, r := range v.Resources {
					if n > 0 && served(g.Versions[:n], r.Resource) {
						continue // kubectl names the preferred version
					}
					verbs := slices.Clone(r.Verbs)
					line := []string{r.Resource, strings.Join(r.ShortNames, ","), gv, fmt.Sprint(r.Scope == apidiscoveryv2.ScopeNamespace), r.ResponseKind.Kind, strings.Join(verbs, ","), strings.Join(r.Categories, ",")}
					want = append(want, strings.Join(strings.Fields(strings.Join(line, " ")), " "))
				}
			}
		}
	}
	compareLines(t, "api-resources", got, want)
	compareLines(t, "api-versions", strings.Fields(runKubectl(t, k, "api-versions")), versions)
}

func served(versions []apidiscoveryv2.APIVersionDiscovery, resource string) bool {
	return slices.ContainsFunc(versions, func(v apidiscoveryv2.APIVersionDiscovery) bool {
		return slices.ContainsFunc(v.Resources, func(r apidiscoveryv2.APIResourceDiscovery) bool { return r.Resource == resource })
	})
}

func compareLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	sort.Strings(got)
	sort.Strings(want)
	for _, l := range got {
		if !slices.Contains(want, l) {
			t.Errorf("%s: unexpected: %s", what, l)
		}
	}
	for _, l := range want {
		if !slices.Contains(got, l) {
			t.Errorf("%s: missing: %s", what, l)
		}
	}
}
