package test

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/yaml"
)

// snippet is what a page shows as code.
type snippet struct {
	page, text string
	inline     bool // in a sentence
}

var (
	fence    = regexp.MustCompile("(?ms)^```(\\S*)([^\n]*)\n(.*?)^```$")
	codeSpan = regexp.MustCompile("(?s)`([^`]+)`")
	heredoc  = regexp.MustCompile(`(?ms)^(.*) <<END\n.*?^END$`)
	comment  = regexp.MustCompile(`\s+# .*`)
)

// TestEveryCommandInDocs looks at each command line of the documentation that TestDocs does not run. It fails for one of which
// it knows no way to tell whether it is right.
func TestEveryCommandInDocs(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../docs/*.md")
	must(t, err)
	guides, err := filepath.Glob("../docs/from/*.md")
	must(t, err)
	pages = append(pages, guides...)
	c := &commandChecks{running: serve(t, filepath.Join(t.TempDir(), "data"), "--planes")}
	var n atomic.Int64
	t.Cleanup(func() {
		if n.Load() < 120 {
			t.Errorf("only %d commands were found", n.Load())
		}
	})
	for _, path := range append(pages, "../README.md", "../SECURITY.md") {
		page := strings.TrimPrefix(path, "../")
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			for _, s := range snippets(page, readPage(t, path)) {
				for _, line := range commandsOf(t, s) {
					n.Add(1)
					if err := c.check(t, s, line); err != nil {
						t.Errorf("%s: %v", line, err)
					}
				}
			}
		})
	}
}

// snippets returns what a page shows as code, but for blocks that TestDocs runs or writes to files.
func snippets(page, text string) (out []snippet) {
	text = fence.ReplaceAllStringFunc(text, func(block string) string {
		m := fence.FindStringSubmatch(block)
		if !strings.Contains(m[2], "test") && !strings.Contains(m[2], "file=") {
			out = append(out, snippet{page: page, text: m[3]})
		}
		return ""
	})
	var block, prose strings.Builder
	before, inBlock := "", false
	flush := func() {
		if s := strings.TrimSpace(block.String()); s != "" {
			out = append(out, snippet{page: page, text: s})
		}
		block.Reset()
	}
	for line := range strings.Lines(text + "\n") {
		indented := strings.HasPrefix(line, "    ")
		switch {
		case indented && (inBlock || strings.TrimSpace(before) == ""):
			inBlock = true
			block.WriteString(strings.TrimPrefix(strings.TrimPrefix(line, "    "), "   ")) // in a list there are three more
		case inBlock && strings.TrimSpace(line) == "":
			block.WriteString("\n")
		default:
			inBlock = false
			flush()
			prose.WriteString(line)
		}
		before = line
	}
	flush()
	for _, m := range codeSpan.FindAllStringSubmatch(prose.String(), -1) {
		out = append(out, snippet{page, strings.ReplaceAll(m[1], "\n", " "), true})
	}
	return out
}

// programs are the first words of commands. In sentences only lines of these count, and in blocks all lines must be one.
var programs = []string{
	"kanzen", "kanzen-kms", "./kanzen-kms", "kubectl", "go", "make", "cd", "etcdctl", "sh", "cp", "ln", "head", "echo", "cat", "for", "export",
	"systemctl", "softhsm2-util", "skopeo", "pip", "npm", "bundle", "CGO_ENABLED=1", "helm", "docker", "apt", "apt-get", "dnf", "curl",
	"sha256sum", "install", "mkdir",
}

// notCommands are blocks that show something else, by their page and how they begin.
var notCommands = map[string]string{
	"docs/operations.md kind: ClusterRole":              "yaml",
	"docs/operations.md ERROR   webhook":                "an answer",
	"docs/planes.md apiVersion: planes":                 "yaml",
	"docs/planes.md spec:":                              "yaml",
	"docs/planes.md apiVersion: rbac":                   "yaml",
	"docs/planes.md provider, err := planes.NewE":       "go",
	"docs/bundles.md apiVersion: bundle":                "yaml",
	"docs/bundles.md ~ clusterrole/":                    "an answer",
	"docs/extensions.md metadata:":                      "yaml",
	"docs/bundles.md Error: nothing was":                "an answer",
	"docs/forks.md apiVersion: rbac":                    "yaml",
	"docs/forks.md s := kanzentest.Start":               "go",
	"docs/testing.md s := kanzentest.Start":             "go",
	"docs/scale.md requests ":                           "formulas",
	"docs/testing.md \"sigs.k8s.io/controller-runtime":  "imports",
	"docs/testing.md testEnv.Options":                   "go",
	"docs/testing.md func TestController":               "go",
	"docs/testing.md server, err := kanzen.Run":         "go",
	"docs/testing.md const server = await new":          "JavaScript",
	"docs/testing.md with DockerContainer":              "Python",
	"README.md s := testkit.Start":                      "go",
	"docs/extension.md type Thing struct":               "go",
	"docs/extension.md extension.Add(":                  "go",
	"docs/extension.md Subresources: []extension.":      "go",
	"docs/extension.md host := kanzentest.Start":        "go",
	"docs/architecture.md cmd/kanzen ":                  "a tree",
	"docs/kubeadm.md spec:":                             "yaml",
	"docs/install.md replicas: 3":                       "yaml",
	"docs/install.md jobs:":                             "yaml",
	"docs/install.md {":                                 "yaml",
	"docs/from/envtest.md KUBEBUILDER_ASSETS=\"$(shell": "make",
}

// commandsOf returns the command lines of a snippet; of a block that has none it looks at the form.
func commandsOf(t *testing.T, s snippet) (out []string) {
	t.Helper()
	word, _, more := strings.Cut(s.text, " ")
	if s.inline {
		if more && slices.Contains(programs, word) && s.text != "kubectl explain" {
			return []string{s.text}
		}
		return nil
	}
	if flags, ok := strings.CutPrefix(strings.Trim(s.text, "'"), "--"); ok { // for kanzen serve
		return []string{"kanzen serve '--" + flags + "' --etcd-servers https://10.0.0.1:2379"}
	}
	if !slices.Contains(programs, word) && !strings.HasPrefix(word, "KUBEBUILDER_ASSETS=$(") {
		for at, kind := range notCommands {
			if begin, ok := strings.CutPrefix(at, s.page+" "); ok && strings.HasPrefix(s.text, begin) {
				checkForm(t, s, kind)
				return nil
			}
		}
		if s.page != "docs/architecture.md" {
			t.Errorf("this block has no commands that are known: %s", s.text)
		}
		return nil
	}
	if b, err := exec.CommandContext(t.Context(), "sh", "-n", "-c", s.text).CombinedOutput(); err != nil && s.page != "README.md" {
		t.Errorf("a shell does not read it: %s\n%s", b, s.text)
	}
	text := strings.ReplaceAll(heredoc.ReplaceAllString(s.text, "$1"), "\\\n", " ")
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(comment.ReplaceAllString(line, "")); line == "" {
			continue
		}
		if s.page == "README.md" { // its blocks have columns of text
			line = columns.Split(line, 2)[0]
			if first := strings.Fields(line)[0]; !slices.Contains(programs, first) && !strings.Contains(first, "=$(") {
				continue
			}
		}
		out = append(out, line)
	}
	return out
}

var columns = regexp.MustCompile(`\s{3,}`)

// checkForm looks at a block that has no commands.
func checkForm(t *testing.T, s snippet, kind string) {
	t.Helper()
	switch kind {
	case "yaml":
		var into map[string]any
		if err := yaml.UnmarshalStrict([]byte(s.text), &into); err != nil {
			t.Errorf("%v: %s", err, s.text)
		}
	case "go":
		parses := false
		for _, form := range []string{"package a\n%s", "package a\nfunc f() {\n%s\n}", "package a\nvar a = T{\n%s\n}", "package a\n%s\n}"} {
			if _, err := parser.ParseFile(token.NewFileSet(), "a.go", fmt.Sprintf(form, s.text), 0); err == nil {
				parses = true
			}
		}
		if !parses {
			t.Errorf("Go does not read it: %s", s.text)
		}
		for _, m := range publicName.FindAllStringSubmatch(s.text, -1) {
			dir := filepath.Join("../pkg", m[1])
			if m[1] == "testkit" { // a module of its own
				dir = "../testkit"
			}
			if err := declares(dir, m[2]); err != nil {
				t.Error(err)
			}
		}
	}
}

var publicName = regexp.MustCompile(`\b(kanzentest|testkit|extension|envtest)\.([A-Z]\w*)`)

// declares says whether a package has an exported name.
func declares(dir, name string) error {
	found, err := matches(dir, regexp.MustCompile(`(?m)^(func|type|var|const|\t)\s*`+name+`\b`), func(f string) bool { return !strings.HasSuffix(f, "_test.go") })
	if err == nil && !found {
		err = fmt.Errorf("%s has no %s", dir, name)
	}
	return err
}

// matches says whether a Go file of a directory, or with ... of those below it, has a pattern.
func matches(dir string, pattern *regexp.Regexp, include func(file string) bool) (found bool, err error) {
	root, below := strings.CutSuffix(dir, "/...")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && !below:
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || !include(path):
			return nil
		}
		b, err := os.ReadFile(path)
		found = found || pattern.Match(b)
		return err
	})
	return found, err
}

// commandChecks is what checks need.
type commandChecks struct{ running *kanzen }

var sides = regexp.MustCompile(`\s*(?:&&|\|)\s*`)

// check looks at a line, each of its commands in turn; cd leads to where the next ones are.
func (c *commandChecks) check(t *testing.T, s snippet, line string) error {
	line = strings.TrimSuffix(line, " &")
	dir := ".."
	var errs []error
	for i, command := range sides.Split(line, -1) {
		words := shellWords(command)
		if len(words) == 0 || i > 0 && !slices.Contains(programs, words[0]) {
			continue // the end of a pipe
		}
		if words[0] == "cd" {
			dir = filepath.Join(dir, words[1])
			_, err := os.Stat(dir)
			errs = append(errs, err)
			continue
		}
		errs = append(errs, c.one(t, s, dir, words))
	}
	return errors.Join(errs...)
}

// shellWords takes a command apart as a shell does, without what it would put in.
func shellWords(command string) (out []string) {
	for _, m := range word.FindAllString(command, -1) {
		if strings.ContainsAny(m, "<>;") || m == "…" || m == "..." {
			break // to or from a file, or further commands
		}
		out = append(out, strings.NewReplacer("'", "", `"`, "", "…", "a", "$PWD", "/tmp").Replace(m))
	}
	return out
}

var word = regexp.MustCompile(`(?:\$\([^)]*\)|[^\s'"]|'[^']*'|"[^"]*")+`)

func (c *commandChecks) one(t *testing.T, s snippet, dir string, words []string) error {
	switch words[0] {
	case "kanzen":
		return c.ownCommand(t, s, words[1:])
	case "kanzen-kms", "./kanzen-kms":
		return hasWords("../cmd/kanzen-kms/main.go", words[1:])
	case "kubectl":
		return c.kubectl(t, words[1:])
	case "go", "CGO_ENABLED=1":
		return goCommand(dir, words[slices.Index(words, "go")+1:])
	case "make":
		return makes(words[1:])
	case "sh": // what a release has, or `kanzen assets` writes
		if words[1] == "get-kanzen.sh" {
			flags := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, "--") })
			return hasWords("../release/get-kanzen.sh", flags)
		}
		name := strings.TrimSuffix(filepath.Base(words[1]), ".sh")
		return hasWords("../cmd/kanzen/assets.go", []string{name})
	case "systemctl", "skopeo", "pip", "npm", "bundle", "etcdctl", "softhsm2-util", "helm", "docker", "apt", "apt-get", "dnf", "curl", "sha256sum", "install":
		return others(words)
	case "mkdir", "cp", "ln", "head", "echo", "cat", "for", "export":
		return nil // the shell has read it
	}
	if m := substitution.FindStringSubmatch(words[0]); m != nil {
		return errors.Join(c.one(t, s, dir, shellWords(m[1])), c.one(t, s, dir, words[1:]))
	}
	if assignment.MatchString(words[0]) {
		return nil
	}
	return errors.New("it is in no class of commands")
}

var (
	assignment   = regexp.MustCompile(`^[a-z]+=`)
	substitution = regexp.MustCompile(`^[A-Z_]+=\$\((.*)\)$`)
)

// ownCommand has kanzen read a command line. `kanzen serve` is also started, where all that it names is on this machine.
func (c *commandChecks) ownCommand(t *testing.T, s snippet, args []string) error {
	depth := 0 // of commands: kanzen snapshot save
	for depth < len(args) && lowerWord.MatchString(args[depth]) && (depth == 0 || slices.Contains(commandsOfCommands, args[0])) {
		depth++
	}
	if depth == 0 {
		return errors.New("it names no command")
	}
	if args[0] == "etcd" {
		return nil // etcd's flags; TestMembers runs what is printed for it
	}
	_, stderr, code := output(t, binaries.kanzen, slices.Insert(slices.Clone(args), depth, "--help")...)
	if code != 0 && (!s.inline || !strings.Contains(stderr, "flag needs an argument")) { // a sentence may name a flag alone
		return fmt.Errorf("exit code %d: %s", code, stderr)
	}
	if args[0] != "serve" || s.inline || strings.Contains(strings.Join(args, " "), "//10.0.0.") {
		return nil
	}
	home := t.TempDir()
	credentials := filepath.Join(home, "s3")
	must(t, os.WriteFile(credentials, []byte("[default]\naws_access_key_id = a\naws_secret_access_key = b\n"), 0o600))
	more := []string{"--data-dir=" + filepath.Join(home, "data"), "--secure-port=0"}
	for i, a := range args[1:] {
		switch {
		case args[i] == "--data-dir", a == "--data-dir":
			continue
		case args[i] == "--snapshot-dir":
			a = filepath.Join(home, "snapshots")
		case args[i] == "--snapshot-keys-passphrase-file":
			a = filepath.Join(home, "passphrase")
			must(t, os.WriteFile(a, []byte("a passphrase"), 0o600))
		case strings.HasSuffix(a, "/s3"):
			a = credentials
		case args[i] == "--encryption-provider-config":
			a = filepath.Join(home, "encryption.yaml")
			must(t, os.WriteFile(a, []byte("kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources: [{resources: [secrets], providers: [{identity: {}}]}]\n"), 0o600))
		}
		more = append(more, a)
	}
	k, err := tryServe(t, filepath.Join(home, "data"), more[1:]...)
	if err == nil {
		k.kill()
	}
	return err
}

var (
	lowerWord          = regexp.MustCompile(`^[a-z][a-z-]*$`)
	commandsOfCommands = []string{"snapshot", "plane", "member", "encryption", "fork"}
)

// kubectl has kubectl read a command line; what only reads is also run.
func (c *commandChecks) kubectl(t *testing.T, args []string) error {
	if args[0] == "ws" {
		return nil // a plugin of kcp
	}
	reads := (args[0] == "get" || args[0] == "explain") && !slices.Contains(args, "-w") && !slices.Contains(args, "NAME")
	args = append([]string{"--kubeconfig", c.running.kubeconfig()}, args...)
	if !reads {
		args = append(args, "--help")
	}
	if _, stderr, code := output(t, binaries.kubectl, args...); code != 0 {
		return fmt.Errorf("exit code %d: %s", code, stderr)
	}
	return nil
}

// goCommand looks for the packages, tests and benchmarks that a command of go names.
func goCommand(dir string, args []string) error {
	kinds := map[string]string{"-run": "Test", "-bench": "Benchmark"}
	ofGo := []string{"-run", "-bench", "-v", "-cpu", "-tags", "-artifacts", "-args", "-o"}
	var patterns []*regexp.Regexp
	var packages []string
	for i, a := range args {
		switch {
		case i > 0 && kinds[args[i-1]] != "":
			if a == "-" {
				continue
			}
			a = strings.TrimPrefix(strings.Trim(a, "^$."), kinds[args[i-1]])
			patterns = append(patterns, regexp.MustCompile(`(?m)^func `+kinds[args[i-1]]+`\w*(`+a+`)\w*\(`))
		case a == "github.com/kanzen-io/kanzen":
			return hasWords("../go.mod", []string{a})
		case a == "github.com/kanzen-io/kanzen/testkit":
			return hasWords("../testkit/go.mod", []string{a})
		case a == "github.com/kanzen-io/kanzen/testcontainers":
			return hasWords("../testcontainers/go.mod", []string{a})
		case a == "github.com/kanzen-io/kanzen/multicluster":
			return hasWords("../multicluster/go.mod", []string{a})
		case strings.HasPrefix(a, "sigs.k8s.io/kwok/"):
			return hasWords(filepath.Join(dir, "go.mod"), []string{"sigs.k8s.io/kwok"})
		case strings.HasPrefix(a, "."):
			packages = append(packages, a)
		case strings.HasPrefix(a, "-") && !slices.Contains(ofGo, a):
			flag := `\bflag\.\w+\((&\S+, )?"` + a[1:] + `"`
			if a == "-record" { // it is test/peer's, for all that imports it
				flag += `|\*peer\.Recording`
			}
			patterns = append(patterns, regexp.MustCompile(flag))
		}
	}
	return goTests(dir, packages, patterns)
}

func goTests(dir string, packages []string, patterns []*regexp.Regexp) error {
	for _, p := range packages {
		p = filepath.Join(dir, p)
		if _, err := os.Stat(strings.TrimSuffix(p, "/...")); err != nil {
			return err
		}
		for _, pattern := range patterns {
			if found, err := matches(p, pattern, func(string) bool { return true }); err != nil {
				return err
			} else if !found {
				return fmt.Errorf("%s has no %s", p, pattern)
			}
		}
	}
	return nil
}

// makes looks for the targets of make.
func makes(args []string) error {
	dir := ".."
	if args[0] == "-C" {
		dir, args = filepath.Join(dir, args[1]), args[2:]
	}
	b, err := os.ReadFile(filepath.Join(dir, "Makefile"))
	if err != nil {
		return err
	}
	text := strings.ReplaceAll(string(b), "$(BIN)", "bin")
	for _, target := range args {
		if name, _, ok := strings.Cut(target, "="); ok { // a variable
			if !strings.Contains(text, "$("+name+")") && !strings.Contains(text, "$(if $("+name) {
				return fmt.Errorf("%s/Makefile has no %s", dir, name)
			}
			continue
		}
		names := regexp.QuoteMeta(target) + "|" + regexp.QuoteMeta(filepath.Dir(target)+"/%")
		if !regexp.MustCompile(`(?m)^([^\t\n:=]*\s)?(` + names + `)(\s[^:\n]*)?:`).MatchString(text) {
			return fmt.Errorf("%s/Makefile makes no %s", dir, target)
		}
	}
	return nil
}

// others looks at lines of programs that are no part of this repository: what they name of it is there.
func others(words []string) error {
	line := strings.Join(words, " ")
	for begin, of := range map[string][2]string{
		"systemctl restart":                     {"../release/nfpm.yaml", "/usr/lib/systemd/system/kanzen.service"},
		"systemctl enable --now kanzen":         {"../release/nfpm.yaml", "/usr/lib/systemd/system/kanzen.service"},
		"skopeo copy oci-archive:kanzen-image":  {"../release/build.sh", "kanzen-image-oci.tar"},
		"pip install -r requirements.txt":       {"../examples/python/requirements.txt", "kubernetes"},
		"bundle install":                        {"../examples/ruby/Gemfile", "kubeclient"},
		"npm install":                           {"../examples/javascript/package.json", "@kubernetes/client-node"},
		"npm test":                              {"../examples/javascript/package.json", `"test": "kanzen test -- node --test"`},
		"etcdctl --endpoints":                   {"../internal/wire/pki/etcd.go", "client.crt"},
		"etcdctl snapshot save":                 {"../docs/backup.md", "etcdutl"},
		"etcdctl compact":                       {"../docs/backup.md", "compact"},
		"etcdctl check perf":                    {"../docs/scale.md", "perf"},
		"helm show values":                      {"../release/chart/values.yaml", "image"},
		"helm install":                          {"../release/build.sh", "kanzen-"},
		"softhsm2-util --init-token":            {"kms_test.go", "softhsm2-util"},
		"sha256sum --check":                     {"../release/build.sh", "sha256sum"},
		"install -D -m 0755 kanzen-linux-":      {"../release/build.sh", "kanzen-"},
		"install -D -m 0755 kanzen-kubectl-":    {"../release/build.sh", "kanzen-kubectl-"},
		"docker start kanzen":                   {"container_test.go", "start"},
		"docker exec kanzen /kanzen kubeconfig": {"../cmd/kanzen/kubeconfig.go", "kubeconfig"},
		"docker run -d --name kanzen":           {"../release/image/main.go", "KANZEN_DATA_DIR"},
		"docker exec kanzen /kanzen kubectl":    {"../release/image/main.go", "kanzen-kubectl"},
		"apt-get update":                        {"../release/repository/apt.go", "Packages"},
		"apt-get install kanzen":                {"../release/nfpm.yaml", "kanzen"},
		"dnf install kanzen":                    {"../release/nfpm.yaml", "kanzen"},
		"apt install ./kanzen_":                 {"../release/nfpm.yaml", "kanzen"},
		"dnf install ./kanzen-":                 {"../release/nfpm.yaml", "kanzen"},
		"curl -fsSL -o /etc/apt/sources.list":   {"../release/repository/apt.go", "kanzen.sources"},
		"curl -fsSL -o /etc/yum.repos.d/":       {"../release/repository/rpm.go", "kanzen.repo"},
	} {
		if strings.HasPrefix(line, begin) {
			return hasWords(of[0], of[1:])
		}
	}
	return errors.New("it is in no class of other programs' commands")
}

// hasWords looks for words in a file; for flags without their dashes.
func hasWords(path string, words []string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for _, w := range words {
		if strings.HasPrefix(w, "-") || lowerWord.MatchString(w) || strings.Contains(w, ".") && !strings.Contains(w, "kms") {
			if name := strings.TrimLeft(w, "-"); !strings.Contains(string(b), name) {
				return fmt.Errorf("%s does not have %s", path, name)
			}
		}
	}
	return nil
}
