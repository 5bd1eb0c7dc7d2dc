package test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/yaml"
)

const releasedVersion = "9.8.7"

// releasedBinaries returns the names of the binaries in a release.
func releasedBinaries() []string {
	var out []string
	for _, program := range []string{"kanzen", "kanzen-kubectl"} {
		for _, platform := range []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64", "windows-amd64.exe", "windows-arm64.exe"} {
			out = append(out, program+"-"+platform)
		}
	}
	return out
}

// publishRelease puts a release on a web server: this machine's binaries are those under test, the others are a few bytes. It returns the
// URL below which versions are, and the directory of the release.
func publishRelease(t *testing.T) (downloads, dir string) {
	t.Helper()
	root := t.TempDir()
	dir = filepath.Join(root, "v"+releasedVersion)
	must(t, os.Mkdir(dir, 0o700))
	var sums strings.Builder
	here := runtime.GOOS + "-" + runtime.GOARCH
	built := map[string]string{"kanzen-" + here: binaries.kanzen, "kanzen-kubectl-" + here: binaries.kubectl}
	for _, file := range releasedBinaries() {
		path := filepath.Join(dir, file)
		if built[file] != "" {
			must(t, os.Symlink(built[file], path))
		} else {
			must(t, os.WriteFile(path, []byte(file), 0o600))
		}
		fmt.Fprintf(&sums, "%s  %s\n", sumOf(t, path), file)
	}
	must(t, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o600))
	server := httptest.NewServer(http.FileServer(http.Dir(root)))
	t.Cleanup(server.Close)
	return server.URL, dir
}

func sumOf(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	must(t, err)
	return hex.EncodeToString(h.Sum(nil))
}

// shell runs a command with no more of an environment than it is given, and returns what it prints.
func shell(t *testing.T, env []string, command ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// makeChannels has release/channels.sh write into the directory of a release.
func makeChannels(t *testing.T, dir, downloads string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("releases are built on Linux")
	}
	out, err := shell(t, []string{"VERSION=" + releasedVersion, "SOURCE_DATE_EPOCH=1000000000", "DOWNLOADS=" + downloads, "IMAGE=registry.example.com/kanzen"},
		"../release/channels.sh", dir)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestReleaseChannels makes what brings a release to people, and runs what this machine can run of it.
func TestReleaseChannels(t *testing.T) {
	t.Parallel()
	downloads, dir := publishRelease(t)
	makeChannels(t, dir, downloads)
	t.Run("the same bytes again", func(t *testing.T) {
		again := t.TempDir()
		for _, file := range releasedBinaries() {
			must(t, os.Symlink(filepath.Join(dir, file), filepath.Join(again, file)))
		}
		makeChannels(t, again, downloads)
		for _, file := range []string{"kanzen-" + releasedVersion + ".tgz", "devcontainer-feature-kanzen.tgz", "setup-kanzen/action.yml", "homebrew/kanzen.rb"} {
			if sumOf(t, filepath.Join(dir, file)) != sumOf(t, filepath.Join(again, file)) {
				t.Errorf("%s has other bytes the second time", file)
			}
		}
	})
	t.Run("without the URL of downloads", func(t *testing.T) {
		dir := t.TempDir()
		makeChannels(t, dir, "")
		if _, err := os.Stat(filepath.Join(dir, "homebrew")); err == nil {
			t.Error("there is a formula without a URL")
		}
		out, err := shell(t, []string{"HOME=" + t.TempDir()}, "sh", filepath.Join(dir, "get-kanzen.sh"))
		if err == nil || !strings.Contains(out, "--downloads has to name the URL") {
			t.Errorf("get-kanzen.sh: %v %s", err, out)
		}
	})
	t.Run("packages", func(t *testing.T) { checkPackages(t, dir, downloads) })
	t.Run("get-kanzen.sh", func(t *testing.T) { checkScript(t, dir, downloads) })
	t.Run("setup-kanzen", func(t *testing.T) { checkAction(t, dir) })
	t.Run("devcontainer", func(t *testing.T) { checkFeature(t, dir) })
}

// checkPackages looks at the files for package managers: each URL is that of a file with the checksum beside it.
func checkPackages(t *testing.T, dir, downloads string) {
	for file, download := range map[string]struct {
		pattern string // the file of a release, and its checksum
		n       int
		parser  []string
	}{
		"homebrew/kanzen.rb": {`url "` + regexp.QuoteMeta(downloads) + `/(\S+)"\s+sha256 "(\w+)"`, 8, []string{"ruby", "-c"}},
		"nix/flake.nix":      {`file = "(\S+)"; sha256 = "(\w+)";`, 8, []string{"nix-instantiate", "--parse"}},
	} {
		path := filepath.Join(dir, file)
		text, err := os.ReadFile(path)
		must(t, err)
		found := regexp.MustCompile(download.pattern).FindAllStringSubmatch(string(text), -1)
		if len(found) != download.n {
			t.Errorf("%s names %d files, want %d", file, len(found), download.n)
		}
		for _, m := range found {
			name := strings.TrimPrefix(m[1], "v"+releasedVersion+"/")
			if got := sumOf(t, filepath.Join(dir, name)); got != m[2] {
				t.Errorf("%s: %s has the checksum %s, not %s", file, name, got, m[2])
			}
		}
		if _, err := exec.LookPath(download.parser[0]); err != nil {
			t.Logf("there is no %s to read %s", download.parser[0], file)
			continue
		}
		if out, err := shell(t, []string{"HOME=" + t.TempDir()}, append(download.parser, path)...); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
	checkScoop(t, dir, downloads)
}

// checkScoop looks at the manifest for Scoop: both programs of each architecture, by the names under which they are installed.
func checkScoop(t *testing.T, dir, downloads string) {
	var manifest struct {
		Version, Description, Homepage, License, Bin string
		Architecture                                 map[string]struct{ URL, Hash []string }
	}
	text, err := os.ReadFile(filepath.Join(dir, "scoop", "kanzen.json"))
	must(t, err)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	must(t, decoder.Decode(&manifest))
	if manifest.Version != releasedVersion || manifest.Homepage == "" || manifest.License == "" {
		t.Errorf("the manifest for Scoop has not what its schema requires: %+v", manifest)
	}
	for name, of := range map[string]string{"64bit": "amd64", "arm64": "arm64"} {
		var urls, sums []string
		for _, program := range []string{"kanzen", "kanzen-kubectl"} {
			file := program + "-windows-" + of + ".exe"
			urls = append(urls, downloads+"/v"+releasedVersion+"/"+file+"#/"+program+".exe")
			sums = append(sums, sumOf(t, filepath.Join(dir, file)))
		}
		if got := manifest.Architecture[name]; !slices.Equal(got.URL, urls) || !slices.Equal(got.Hash, sums) {
			t.Errorf("Scoop's %s is %+v, want %v with %v", name, got, urls, sums)
		}
	}
}

// checkScript installs with get-kanzen.sh in a home directory: once, again, from files, and what is damaged.
func checkScript(t *testing.T, dir, downloads string) {
	home := t.TempDir()
	run := func(args ...string) (string, error) {
		return shell(t, []string{"HOME=" + home}, append([]string{"sh", filepath.Join(dir, "get-kanzen.sh")}, args...)...)
	}
	var requests atomic.Int32
	files := http.FileServer(http.Dir(filepath.Dir(dir)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	bin := filepath.Join(home, ".local", "bin")
	kubectl := filepath.Join(bin, "kanzen-kubectl")
	for _, step := range []struct {
		before   func() error
		flags    []string
		want     string
		requests int32 // one is that for SHA256SUMS
	}{
		{nil, []string{"--without-kubectl"}, "installed kanzen 9.8.7 in BIN\n", 2},
		{nil, nil, "kanzen 9.8.7 is in BIN\ninstalled kanzen-kubectl 9.8.7 in BIN\n", 2},
		{nil, nil, "kanzen 9.8.7 is in BIN\nkanzen-kubectl 9.8.7 is in BIN\n", 1},
		{func() error { return os.WriteFile(kubectl, []byte("another version"), 0o700) }, nil, "kanzen 9.8.7 is in BIN\ninstalled kanzen-kubectl 9.8.7 in BIN\n", 2},
		{func() error { return os.RemoveAll(bin) }, nil, "installed kanzen 9.8.7 in BIN\ninstalled kanzen-kubectl 9.8.7 in BIN\n", 3},
	} {
		if step.before != nil {
			must(t, step.before())
		}
		requests.Store(0)
		out, err := run(append(step.flags, "--downloads", server.URL)...)
		if want := strings.ReplaceAll(step.want, "BIN", bin); err != nil || out != want || requests.Load() != step.requests {
			t.Errorf("%v: %v, %d requests, %q, want %d and %q", step.flags, err, requests.Load(), out, step.requests, want)
		}
	}
	for program, want := range map[string]string{"kanzen": binaries.kanzen, "kanzen-kubectl": binaries.kubectl} {
		if sumOf(t, filepath.Join(bin, program)) != sumOf(t, want) {
			t.Errorf("another %s was installed", program)
		}
	}
	to := filepath.Join(home, "of files")
	if out, err := run("--version", "v"+releasedVersion, "--downloads", "file://"+filepath.Dir(dir)+"/", "--to", to); err != nil {
		t.Errorf("from files: %v %s", err, out)
	}

	damaged := filepath.Join(t.TempDir(), "v1.0.0")
	must(t, os.Mkdir(damaged, 0o700))
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(damaged, "SHA256SUMS"), sums, 0o600))
	must(t, os.WriteFile(filepath.Join(damaged, "kanzen-"+runtime.GOOS+"-"+runtime.GOARCH), []byte("damaged"), 0o600))
	// Of this release one of the two is damaged.
	half := filepath.Join(t.TempDir(), "v1.0.1")
	must(t, os.Mkdir(half, 0o700))
	must(t, os.WriteFile(filepath.Join(half, "SHA256SUMS"), sums, 0o600))
	must(t, os.Symlink(binaries.kanzen, filepath.Join(half, "kanzen-"+runtime.GOOS+"-"+runtime.GOARCH)))
	must(t, os.WriteFile(filepath.Join(half, "kanzen-kubectl-"+runtime.GOOS+"-"+runtime.GOARCH), []byte("damaged"), 0o600))
	other := filepath.Join(t.TempDir(), "kanzen")
	must(t, os.WriteFile(other, []byte("another version"), 0o600))
	to = filepath.Dir(other)
	for args, want := range map[string]string{
		"--version 1.0.0 --downloads file://" + filepath.Dir(damaged): "nothing was installed",
		"--version 1.0.1 --downloads file://" + filepath.Dir(half):    "nothing was installed",
		"--version 0.0.1 --downloads " + downloads:                    "download " + downloads + "/v0.0.1/SHA256SUMS",
		"--prefix /usr": "unknown flag --prefix",
		"--version":     "--version needs a value",
	} {
		out, err := run(append([]string{"--to", to}, strings.Fields(args)...)...)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v %s, want %q", args, err, out, want)
		}
		if b, err := os.ReadFile(other); err != nil || string(b) != "another version" {
			t.Errorf("%s has changed what was installed: %v", args, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(to, ".kanzen.*"))
	if must(t, err); len(left) > 0 {
		t.Errorf("these were left behind: %v", left)
	}
}

// checkAction runs the action's step as a runner does, with the defaults of its inputs, and asks the server that it has started.
func checkAction(t *testing.T, dir string) {
	var action struct {
		Name, Description string
		Inputs            map[string]struct{ Default string }
		Runs              struct {
			Using string
			Steps []struct {
				Uses, Run, Shell string
				Env              map[string]string
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "setup-kanzen", "action.yml"))
	must(t, err)
	must(t, yaml.Unmarshal(text, &action))
	if action.Name == "" || action.Description == "" || action.Runs.Using != "composite" {
		t.Errorf("the action has not what its schema requires: %+v", action)
	}
	temp := t.TempDir()
	said := func(name string) string { // what a step tells the runner
		b, err := os.ReadFile(filepath.Join(temp, name))
		must(t, err)
		return string(b)
	}
	env := []string{"HOME=" + temp, "RUNNER_TEMP=" + temp, "GITHUB_ACTION_PATH=" + filepath.Join(dir, "setup-kanzen")}
	for _, name := range []string{"GITHUB_PATH", "GITHUB_ENV", "GITHUB_OUTPUT"} {
		env = append(env, name+"="+filepath.Join(temp, name))
	}
	t.Cleanup(func() { // the runner does this at the end of a job
		_ = exec.Command("sh", "-c", `pid=$(cat "$0") && kill "$pid" && while kill -0 "$pid" 2>&-; do sleep 0.05; done`, filepath.Join(temp, "kanzen", "serve.pid")).Run()
	})
	input := regexp.MustCompile(`\$\{\{ inputs\.([\w-]+) \}\}`)
	ran := 0
	for _, step := range action.Runs.Steps {
		if step.Run == "" {
			continue
		}
		ran++
		if strings.Contains(step.Run, "${{") || step.Shell != "bash" {
			t.Errorf("an input is part of a script, or the shell is missing: %+v", step)
		}
		for name, value := range step.Env {
			value = input.ReplaceAllStringFunc(value, func(m string) string {
				in, ok := action.Inputs[input.FindStringSubmatch(m)[1]]
				if !ok {
					t.Errorf("there is no input %s", m)
				}
				return in.Default
			})
			if name == "KANZEN_SERVE_FLAGS" {
				value = "--emulated-version=1.36 --v=1"
			}
			env = append(env, name+"="+value)
		}
		if out, err := shell(t, env, "bash", "-euo", "pipefail", "-c", step.Run); err != nil {
			t.Fatalf("%s: %v\n%s", step.Run, err, out)
		}
	}
	if ran != 1 {
		t.Errorf("%d steps have scripts", ran)
	}
	set := map[string]string{}
	for line := range strings.Lines(said("GITHUB_ENV")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		set[name] = value
	}
	if _, err := os.Stat(filepath.Join(set["KUBEBUILDER_ASSETS"], "kube-apiserver")); err != nil {
		t.Error(err)
	}
	if out, err := shell(t, []string{"HOME=" + temp, "KUBECONFIG=" + set["KUBECONFIG"]}, binaries.kubectl, "get", "--raw", "/version"); err != nil || !strings.Contains(out, `"emulationMinor": "36"`) {
		t.Errorf("/version: %v %s", err, out)
	}
	kanzen := filepath.Join(strings.TrimSpace(said("GITHUB_PATH")), "kanzen")
	if out, err := shell(t, []string{"HOME=" + temp, "PATH="}, kanzen, "kubectl", "--data-dir="+filepath.Join(temp, "kanzen", "data"), "get", "namespace/default", "-o", "name"); err != nil || out != "namespace/default\n" {
		t.Errorf("kanzen kubectl: %v %s", err, out)
	}
	if path := strings.TrimSpace(said("GITHUB_PATH")); !strings.Contains(said("GITHUB_OUTPUT"), "path="+path+"\n") {
		t.Errorf("the output path is not what was added to PATH: %s", said("GITHUB_OUTPUT"))
	}
}

// checkFeature installs the devcontainer feature as the tools do: as a script with the options in the environment.
func checkFeature(t *testing.T, dir string) {
	at, bin := t.TempDir(), t.TempDir()
	if out, err := shell(t, nil, "tar", "-xzf", filepath.Join(dir, "devcontainer-feature-kanzen.tgz"), "-C", at); err != nil {
		t.Fatal(out)
	}
	var feature struct {
		ID, Version, Name string
		Options           map[string]struct {
			Type, Description string
			Default           any
		}
	}
	text, err := os.ReadFile(filepath.Join(at, "devcontainer-feature.json"))
	must(t, err)
	must(t, json.Unmarshal(text, &feature))
	if feature.ID != "kanzen" || feature.Version != releasedVersion || feature.Name == "" {
		t.Errorf("the feature has not what its schema requires: %+v", feature)
	}
	env := []string{"KANZEN_BIN=" + bin}
	for name, o := range feature.Options {
		env = append(env, fmt.Sprintf("%s=%v", strings.ToUpper(name), o.Default))
	}
	if out, err := shell(t, env, filepath.Join(at, "install.sh")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if sumOf(t, filepath.Join(bin, "kanzen")) != sumOf(t, binaries.kanzen) {
		t.Error("another binary was installed")
	}
	if sumOf(t, filepath.Join(bin, "kanzen-kubectl")) != sumOf(t, binaries.kubectl) {
		t.Error("another kubectl was installed")
	}
}
