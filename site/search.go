package main

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
)

// section is what stands below a heading, as the search finds it.
type section struct {
	Page    string `json:"page"`
	Heading string `json:"heading,omitempty"` // empty before the first
	URL     string `json:"url"`
	Text    string `json:"text"`
}

// sections takes a page apart at its headings.
func (p *page) sections() []section {
	out := []section{{Page: p.title, URL: p.target}}
	for n := p.doc.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			if h.Level == 1 {
				continue
			}
			id, _ := h.AttributeString("id")
			anchor, _ := id.([]byte)
			out = append(out, section{Page: p.title, Heading: textOf(h, p.text), URL: p.target + "#" + string(anchor)})
			continue
		}
		last := &out[len(out)-1]
		last.Text = strings.TrimSpace(last.Text + " " + textOf(n, p.text))
	}
	return out
}

// textOf returns the words below a node, without markup.
func textOf(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			lines := n.Lines()
			for i := range lines.Len() {
				line := lines.At(i)
				b.WriteString(" " + string(line.Value(source)))
			}
		case *ast.Paragraph, *ast.ListItem, *extast.TableCell:
			b.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}
