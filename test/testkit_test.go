package test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// matrix has the operator of testdata/operator tested with each version of controller-runtime.
var matrix = flag.Bool("matrix", false, "also test an operator with testkit and with envtest on each controller-runtime from 0.19 on, which are downloaded and compiled first (half an hour)")

// TestTestkit runs an operator's tests with testkit, on the versions that are compiled for other tests anyway.
func TestTestkit(t *testing.T) {
	t.Parallel()
	o := operator{dir: t.TempDir(), on: "testkit", setup: "0.23"}
	o.write(t)
	for _, name := range []string{"go.mod", "go.sum"} {
		copyFile(t, filepath.Join("kubebuilder", name), filepath.Join(o.dir, name))
	}
	o.goCommand(t, "mod", "edit", "-droprequire=github.com/kanzen-io/kanzen", "-dropreplace=github.com/kanzen-io/kanzen",
		"-require=github.com/kanzen-io/kanzen/testkit@v0.0.0", "-replace=github.com/kanzen-io/kanzen/testkit="+testkitDir(t))
	o.goCommand(t, "test", "-vet=off", "-count=1", "./suite")
}

// TestTestkitMatrix runs the same tests on each controller-runtime, with testkit and with controller-runtime's envtest on `kanzen
// assets` (and with -peer on kube-apiserver), and says what each costs: modules of the build list (go list -m all), lines of
// go.mod, bytes of the modules of which something is compiled, the test binary, and the time of the tests.
func TestTestkitMatrix(t *testing.T) {
	if !*matrix {
		t.Skip("needs -matrix")
	}
	assets := filepath.Join(t.TempDir(), "assets")
	if _, stderr, code := output(t, binaries.kanzen, "assets", "--dir", assets); code != 0 {
		t.Fatal(stderr)
	}
	var table strings.Builder
	fmt.Fprintf(&table, "| %s |\n", strings.Join([]string{"controller-runtime, k8s.io", "tests on", "modules", "go.mod", "source MB", "binary MB", "tests"}, " | "))
	for _, v := range []struct{ runtime, k8s, setup string }{ // k8s: "" is what controller-runtime requires
		{"v0.19.7", "", "0.19"}, {"v0.20.4", "", "0.19"}, {"v0.21.0", "", "0.19"}, {"v0.22.4", "", "0.19"},
		{"v0.23.3", "", "0.23"}, {"v0.24.1", "", "0.23"}, {"v0.24.1", "v0.37.2", "0.23"},
	} {
		t.Run(v.runtime+" "+v.k8s, func(t *testing.T) {
			for _, on := range []string{"", "envtest", "testkit"} { // "": the operator without tests
				o := operator{dir: t.TempDir(), on: on, setup: v.setup}
				o.write(t)
				o.require(t, v.runtime, v.k8s)
				fmt.Fprintf(&table, "| %s | %s |\n", strings.TrimSpace(v.runtime+", "+o.version(t, "k8s.io/client-go")), o.measure(t, assets))
			}
		})
	}
	t.Log("\n" + table.String())
}

// operator is a module that is made of testdata/operator and of test/kubebuilder.
type operator struct {
	dir   string
	on    string // what starts its tests: "testkit" or "envtest"
	setup string // the controller-runtime from which on webhooks are registered so
}

func (o operator) write(t *testing.T) {
	t.Helper()
	const parts = "testdata/operator"
	must(t, os.CopyFS(filepath.Join(o.dir, "api"), os.DirFS("kubebuilder/api")))
	must(t, os.CopyFS(filepath.Join(o.dir, "config"), os.DirFS("kubebuilder/config")))
	must(t, os.CopyFS(filepath.Join(o.dir, "webhook"), os.DirFS(parts+"/webhook")))
	copyFile(t, parts+"/webhook-"+o.setup+"/setup.go", filepath.Join(o.dir, "webhook/setup.go"))
	copyFile(t, "kubebuilder/internal/controller/site_controller.go", filepath.Join(o.dir, "internal/controller/site_controller.go"))
	if o.on != "" {
		must(t, os.CopyFS(filepath.Join(o.dir, "suite"), os.DirFS(parts+"/suite")))
		copyFile(t, parts+"/on-"+o.on+"/start_test.go", filepath.Join(o.dir, "suite/start_test.go"))
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	must(t, err)
	must(t, os.MkdirAll(filepath.Dir(to), 0o700))
	must(t, os.WriteFile(to, b, 0o600))
}

func testkitDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../testkit")
	must(t, err)
	return dir
}

// require writes the go.mod: of what the operator imports, in the versions that controller-runtime asks for.
func (o operator) require(t *testing.T, runtime, k8s string) {
	t.Helper()
	lines := []string{"module example.com/sites", "go 1.22.0", "require sigs.k8s.io/controller-runtime " + runtime}
	if k8s != "" {
		for _, m := range []string{"api", "apimachinery", "client-go", "apiextensions-apiserver"} {
			lines = append(lines, "require k8s.io/"+m+" "+k8s)
		}
	}
	if o.on == "testkit" {
		lines = append(lines, "require github.com/kanzen-io/kanzen/testkit v0.0.0", "replace github.com/kanzen-io/kanzen/testkit => "+testkitDir(t))
	}
	must(t, os.WriteFile(filepath.Join(o.dir, "go.mod"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	o.goCommand(t, "mod", "tidy")
	if got := o.version(t, "sigs.k8s.io/controller-runtime"); got != runtime {
		t.Errorf("%s moves controller-runtime from %s to %s", o.on, runtime, got)
	}
}

// version returns that of a module.
func (o operator) version(t *testing.T, module string) string {
	t.Helper()
	return strings.TrimSpace(o.goCommand(t, "list", "-m", "-f", "{{.Version}}", module))
}

// goCommand runs the go command in the module.
func (o operator) goCommand(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = o.dir, append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "KANZEN="+binaries.kanzen)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s%s", strings.Join(args, " "), err, out, said.String())
	}
	return string(out)
}

var requirement = regexp.MustCompile(`(?m)^(require |\t)\S+\.\S+ v`)

// measure builds and runs the tests, and returns what they cost.
func (o operator) measure(t *testing.T, assets string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(o.dir, "go.mod"))
	must(t, err)
	modules := strings.Count(o.goCommand(t, "list", "-m", "all"), "\n") - 1 // its own
	var source int64
	folders := strings.Fields(o.goCommand(t, "list", "-deps", "-test", "-f", "{{with .Module}}{{.Dir}}{{end}}", "./..."))
	slices.Sort(folders)
	for _, dir := range slices.Compact(folders) {
		source += sizeOf(t, dir)
	}
	of := fmt.Sprintf("%s | %d | %d | %.1f", o.on, modules, len(requirement.FindAll(text, -1)), float64(source)/1e6)
	if o.on == "" {
		o.goCommand(t, "build", "./...")
		return of + " | |"
	}
	binary := filepath.Join(o.dir, "suite", "suite.test")
	o.goCommand(t, "test", "-vet=off", "-c", "-o", binary, "./suite")
	info, err := os.Stat(binary)
	must(t, err)
	of += fmt.Sprintf(" | %.0f | %s", float64(info.Size())/1e6, o.run(t, binary, assets))
	if o.on == "envtest" && *peerBin != "" {
		peer, err := filepath.Abs(*peerBin)
		must(t, err)
		of += ", on kube-apiserver " + o.run(t, binary, peer)
	}
	return of
}

// run runs the tests and returns the time that they take.
func (o operator) run(t *testing.T, binary, assets string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Dir, cmd.Env = filepath.Dir(binary), append(os.Environ(), "KUBEBUILDER_ASSETS="+assets, "KANZEN="+binaries.kanzen)
	begun := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", o.on, err, out)
	}
	return time.Since(begun).Round(10 * time.Millisecond).String()
}

// sizeOf returns the bytes of the files below a directory.
func sizeOf(t *testing.T, dir string) (n int64) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	}))
	return n
}
