package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// rewriteLinks leads the links of a page to where pages and images are in the site. A link to another file of the repository leads
// to its source, or becomes text if nobody said where that is.
func (s *site) rewriteLinks(p *page) error {
	var links []*ast.Link
	var faults []error
	err := ast.Walk(p.doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Link:
			if entering {
				links = append(links, n) // the tree changes below them
			}
		case *ast.Image:
			image := path.Join(path.Dir(p.source), string(n.Destination))
			if entering && !isAbsolute(string(n.Destination)) {
				s.images[image] = true
			}
		}
		return ast.WalkContinue, nil
	})
	for _, l := range links {
		faults = append(faults, s.rewriteLink(p, l))
	}
	return errors.Join(append(faults, err)...)
}

func (s *site) rewriteLink(p *page, l *ast.Link) error {
	to, fragment, _ := strings.Cut(string(l.Destination), "#")
	if to == "" || isAbsolute(to) {
		return nil
	}
	file := path.Join(path.Dir(p.source), to)
	if other := s.pages[file]; other != nil {
		url, err := filepath.Rel(path.Dir(p.target), other.target)
		if err != nil {
			return err
		}
		if l.Destination = []byte(filepath.ToSlash(url)); fragment != "" {
			l.Destination = append(l.Destination, "#"+fragment...)
		}
		if path.Base(file) == textOf(l, p.text) { // a reader of the site knows titles, not files
			l.RemoveChildren(l)
			l.AppendChild(l, ast.NewString([]byte(other.title)))
		}
		return nil
	}
	if _, err := os.Stat(filepath.Join(s.root, filepath.FromSlash(file))); err != nil {
		return fmt.Errorf("%s links to %s, which is not there", p.source, to)
	}
	if s.Source != "" {
		l.Destination = []byte(strings.TrimSuffix(s.Source, "/") + "/" + file)
		return nil
	}
	parent := l.Parent()
	for child := l.FirstChild(); child != nil; child = l.FirstChild() {
		parent.InsertBefore(parent, l, child)
	}
	parent.RemoveChild(parent, l)
	return nil
}

func isAbsolute(url string) bool {
	return strings.Contains(url, "://") || strings.HasPrefix(url, "mailto:")
}
