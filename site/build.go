package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

var (
	//go:embed assets/page.html
	pageHTML string
	//go:embed assets/site.css
	siteCSS []byte
	//go:embed assets/site.js
	siteJS []byte
)

type settings struct{ Version, Source string }

// page is a Markdown file, and what becomes of it. Paths are those in the repository, and in the site, with slashes.
type page struct {
	source, target string // docs/running.md, docs/running.html
	text           []byte
	doc            ast.Node
	title          string
}

// site is what is known while pages are made.
type site struct {
	settings
	root   string
	pages  map[string]*page // by source
	images map[string]bool  // that pages show
}

// build writes the site, and returns the number of its pages. A link to a file that is not there is an error.
func build(root, out string, set settings) (int, error) {
	s := &site{settings: set, root: root, pages: map[string]*page{}, images: map[string]bool{}}
	if err := s.read(); err != nil {
		return 0, err
	}
	files := map[string][]byte{"site.css": siteCSS, "site.js": siteJS}
	index, err := s.render(files)
	if err != nil {
		return 0, err
	}
	// A script and not data: a page on a disk may load scripts, and may not fetch.
	sections, err := json.Marshal(index)
	if err != nil {
		return 0, err
	}
	files["search-index.js"] = fmt.Appendf(nil, "const searchIndex = %s;\n", sections)
	for image := range s.images {
		if files[image], err = os.ReadFile(filepath.Join(root, filepath.FromSlash(image))); err != nil {
			return 0, err
		}
	}
	if err := os.RemoveAll(out); err != nil {
		return 0, err
	}
	for name, content := range files {
		file := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return 0, err
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return 0, err
		}
	}
	return len(s.pages), nil
}

// read parses all pages.
func (s *site) read() error {
	sources := []string{"README.md", "CHANGELOG.md", "SECURITY.md"}
	err := fs.WalkDir(os.DirFS(s.root), "docs", func(file string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path.Ext(file) == ".md" {
			sources = append(sources, file)
		}
		return err
	})
	if err != nil {
		return err
	}
	markdown := newMarkdown()
	for _, source := range sources {
		content, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(source)))
		if err != nil {
			return err
		}
		p := &page{source: source, target: targetOf(source), text: content}
		p.doc = markdown.Parser().Parse(text.NewReader(content))
		for n := p.doc.FirstChild(); n != nil && p.title == ""; n = n.NextSibling() {
			if h, ok := n.(*ast.Heading); ok && h.Level == 1 {
				p.title = textOf(h, content)
			}
		}
		if p.title == "" {
			return fmt.Errorf("%s has no title", source)
		}
		s.pages[source] = p
	}
	return nil
}

func newMarkdown() goldmark.Markdown {
	return goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
}

// targetOf names the page of a file: a directory's README is its index.
func targetOf(source string) string {
	if dir, name := path.Split(source); name == "README.md" {
		return dir + "index.html"
	}
	return strings.TrimSuffix(source, ".md") + ".html"
}

// entry is a line of the navigation.
type entry struct {
	Title, URL string
	Current    bool
}

// render makes each page, and returns what the search knows.
func (s *site) render(files map[string][]byte) ([]section, error) {
	layout, err := template.New("page").Parse(pageHTML)
	if err != nil {
		return nil, err
	}
	order := s.order()
	var index []section
	var faults []error
	for _, source := range order {
		p := s.pages[source]
		index = append(index, p.sections()...) // before links are changed
		if err := s.rewriteLinks(p); err != nil {
			faults = append(faults, err)
			continue
		}
		var body, whole bytes.Buffer
		if err := newMarkdown().Renderer().Render(&body, p.text, p.doc); err != nil {
			return nil, err
		}
		up := strings.Repeat("../", strings.Count(p.target, "/"))
		var nav []entry
		for _, other := range order {
			nav = append(nav, entry{s.pages[other].title, up + s.pages[other].target, other == source})
		}
		err := layout.Execute(&whole, map[string]any{
			"Title": p.title, "Up": up, "Version": s.Version, "Nav": nav,
			"Body": template.HTML(body.String()), //nolint:gosec // the renderer has escaped what it was given
		})
		if err != nil {
			return nil, err
		}
		files[p.target] = whole.Bytes()
	}
	return index, errors.Join(faults...)
}

// order is that of the navigation: README.md, then the pages in the order in which docs/README.md names them, then all others.
func (s *site) order() []string {
	out := []string{"README.md", "docs/README.md"}
	add := func(source string) {
		if s.pages[source] != nil && !slices.Contains(out, source) {
			out = append(out, source)
		}
	}
	if contents := s.pages["docs/README.md"]; contents != nil {
		_ = ast.Walk(contents.doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			if l, ok := n.(*ast.Link); ok && entering {
				add(path.Join("docs", string(l.Destination)))
			}
			return ast.WalkContinue, nil
		})
	}
	var rest []string
	for source := range s.pages {
		rest = append(rest, source)
	}
	slices.Sort(rest)
	for _, source := range rest {
		add(source)
	}
	return out
}
