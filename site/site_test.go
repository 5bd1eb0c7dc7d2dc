package main

import (
	"encoding/json"
	"html"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	tag   = regexp.MustCompile(`<[a-z][^>]*>`)
	attrs = regexp.MustCompile(` (href|src|id)="([^"]*)"`)
)

// written is a site as a browser finds it: the ids and the links of each page.
type written struct {
	files map[string]bool
	ids   map[string]map[string]bool
	links map[string][]string
}

func readSite(t *testing.T, out string) written {
	t.Helper()
	w := written{map[string]bool{}, map[string]map[string]bool{}, map[string][]string{}}
	err := fs.WalkDir(os.DirFS(out), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		w.files[file] = true
		if path.Ext(file) != ".html" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(out, file))
		w.ids[file] = map[string]bool{}
		for _, element := range tag.FindAllString(string(text), -1) {
			for _, m := range attrs.FindAllStringSubmatch(element, -1) {
				if value := html.UnescapeString(m[2]); m[1] == "id" {
					w.ids[file][value] = true
				} else {
					w.links[file] = append(w.links[file], value)
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// check follows each link within the site.
func (w written) check(t *testing.T) (n int) {
	t.Helper()
	for file, links := range w.links {
		for _, link := range links {
			u, err := url.Parse(link)
			if err != nil || u.IsAbs() {
				if err != nil {
					t.Errorf("%s: %v", file, err)
				}
				continue
			}
			n++
			to := file
			if u.Path != "" {
				to = path.Join(path.Dir(file), u.Path)
			}
			switch {
			case !w.files[to]:
				t.Errorf("%s links to %s, which is not there", file, link)
			case u.Fragment != "" && !w.ids[to][u.Fragment]:
				t.Errorf("%s links to %s, which has no such heading", file, link)
			}
		}
	}
	return n
}

// TestSite makes the pages of this repository and follows each link within them.
func TestSite(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	n, err := build("..", out, settings{Version: "9.8.7"})
	if err != nil {
		t.Fatal(err)
	}
	w := readSite(t, out)
	if len(w.ids) != n || n < 30 {
		t.Errorf("%d pages were written, and %d reported", len(w.ids), n)
	}
	if links := w.check(t); links < 500 {
		t.Errorf("only %d links were found", links)
	}
	for file := range w.ids { // a reader gets everywhere
		if !strings.Contains(strings.Join(w.links["docs/index.html"], " ")+" ", path.Base(file)+" ") {
			t.Errorf("the navigation does not name %s", file)
		}
	}
	page, err := os.ReadFile(filepath.Join(out, "docs", "testing.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h1 id=\"tests\">Tests</h1>", "9.8.7", "<td>", `<a href="planes.html">Planes: many control planes in one process</a>`} {
		if !strings.Contains(string(page), want) {
			t.Errorf("docs/testing.html does not have %s", want)
		}
	}
	if strings.Contains(string(page), `href="../examples/python"`) {
		t.Error("docs/testing.html links to what is no page")
	}
	checkSearch(t, out, w)
}

// checkSearch looks at the sections that the search knows, and where node is installed at what it finds.
func checkSearch(t *testing.T, out string, w written) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "search-index.js"))
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.TrimSuffix(strings.TrimPrefix(string(text), "const searchIndex = "), ";\n"))
	var index []section
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	for _, s := range index {
		file, id, _ := strings.Cut(s.URL, "#")
		if !w.files[file] || id != "" && !w.ids[file][id] {
			t.Errorf("the search leads to %s, which is not there", s.URL)
		}
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Log("there is no node to run the search")
		return
	}
	for query, want := range map[string]string{
		"envtest on kanzen":  "docs/testing.html#envtest-on-kanzen",
		"UNDELETE":           "docs/history.html",
		"kubebuilder_assets": "docs/from/envtest.html",
		"nowhere xylophones": "",
	} {
		script := `const { find } = require(process.argv[1]); const index = JSON.parse(require('fs').readFileSync(0));
			console.log(find(index, process.argv[2]).map((s) => s.url).join(' '))`
		cmd := exec.CommandContext(t.Context(), node, "-e", script, filepath.Join(out, "site.js"), query)
		cmd.Stdin = strings.NewReader(string(text))
		b, err := cmd.CombinedOutput()
		found := strings.TrimSpace(string(b))
		if err != nil || !strings.Contains(found, want) || (want == "") != (found == "") {
			t.Errorf("%q finds %q (%v), want %q", query, found, err, want)
		}
	}
}

// TestFaults makes sites of a few pages.
func TestFaults(t *testing.T) {
	repository := func(t *testing.T, readme string) string {
		t.Helper()
		root := t.TempDir()
		for file, text := range map[string]string{
			"README.md": readme, "CHANGELOG.md": "# Changelog", "SECURITY.md": "# Security", "docs/README.md": "# Docs", "docs/a.md": "# A\n\n## B & C\n", "go.mod": "",
		} {
			path := filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return root
	}
	for readme, want := range map[string]string{
		"# K\n\n[a](docs/gone.md)":     "README.md links to docs/gone.md",
		"# K\n\n![a](docs/gone.svg)":   "gone.svg",
		"No title":                     "README.md has no title",
		"# K\n\n[a](docs/a.md#b--c)":   "",
		"# K\n\n<script>1</script>[m]": "",
	} {
		_, err := build(repository(t, readme), filepath.Join(t.TempDir(), "out"), settings{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", readme, err, want)
		}
	}
	out := filepath.Join(t.TempDir(), "out")
	if _, err := build(repository(t, "# K\n\nText <script>1</script> [module](go.mod) [heading](docs/a.md#b--c)"), out, settings{Source: "https://example.com/tree/"}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "<script>1") || !strings.Contains(string(text), `href="https://example.com/tree/go.mod"`) {
		t.Errorf("%s", text)
	}
	readSite(t, out).check(t)
}
