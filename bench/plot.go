package main

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/kanzen-io/kanzen/bench/side"
)

// drawing is an SVG file in the making. Its origin is at the top left.
type drawing struct{ body strings.Builder }

func (d *drawing) text(x, y int, class, s string) {
	fmt.Fprintf(&d.body, `<text x="%d" y="%d" class="%s">%s</text>`+"\n", x, y, class, html.EscapeString(s))
}

func (d *drawing) bar(x, y int, width float64, color string) {
	fmt.Fprintf(&d.body, `<rect x="%d" y="%d" width="%.1f" height="12" rx="2" fill="%s"/>`+"\n", x, y, math.Max(width, 1), color)
}

// line joins points; a dashed one has gaps.
func (d *drawing) line(points [][2]float64, color string, width float64, dashed bool) {
	var at []string
	for _, p := range points {
		at = append(at, fmt.Sprintf("%.1f,%.1f", p[0], p[1]))
	}
	dash := ""
	if dashed {
		dash = ` stroke-dasharray="5 3"`
	}
	fmt.Fprintf(&d.body, `<polyline points="%s" fill="none" stroke="%s" stroke-width="%g"%s/>`+"\n", strings.Join(at, " "), color, width, dash)
}

func (d *drawing) dot(x, y float64, color string) {
	fmt.Fprintf(&d.body, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x, y, color)
}

// svg is the finished file.
func (d *drawing) svg(width, height int, label string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="img" aria-label="%[4]s">
<style>text{font-family:system-ui,sans-serif;fill:#22272e}.title{font-size:15px;font-weight:600}.name{font-size:13px}.value{font-size:11px;fill:#57606a}.ratio{font-size:15px;font-weight:600}.left{font-size:11px;fill:#57606a;text-anchor:end}.under{font-size:11px;fill:#57606a;text-anchor:middle}</style>
<rect width="%[1]d" height="%[2]d" fill="#ffffff"/>
%[3]s</svg>
`, width, height, d.body.String(), html.EscapeString(label))
}

const (
	peerColor   = "#9aa5b1"
	kanzenColor = "#c8553d"
)

// plot draws two bars for each row of the first tables, the longer one full width.
func (r *results) plot() string {
	const (
		left, bar, right = 330, 300, 200 // widths: names, bars, ratios
		line, head       = 34, 44        // heights: a row, a section's title
	)
	var d drawing
	y := 40
	for i, s := range []string{side.Peer, side.Kanzen} {
		d.bar(left+i*180, 14, 12, []string{peerColor, kanzenColor}[i])
		d.text(left+i*180+18, 24, "value", s)
	}
	for _, s := range r.sections() {
		if s == p50Section || s == p99Section || s == rateSection {
			continue
		}
		d.text(16, y+28, "title", s.title)
		y += head
		for _, f := range r.rows(s) {
			peer, kanzen := f.value(side.Peer), f.value(side.Kanzen)
			if math.IsNaN(peer) || math.IsNaN(kanzen) {
				continue
			}
			scale := bar / math.Max(peer, kanzen)
			d.text(16, y+18, "name", f.row)
			d.bar(left, y, peer*scale, peerColor)
			d.bar(left, y+13, kanzen*scale, kanzenColor)
			d.text(left+int(peer*scale)+6, y+10, "value", number(peer, f.unit))
			d.text(left+int(kanzen*scale)+6, y+23, "value", number(kanzen, f.unit))
			d.text(left+bar+110, y+18, "ratio", times(side.Median(f.ratios(side.Kanzen))))
			y += line
		}
	}
	return d.svg(left+bar+right, y+20, "kanzen beside kube-apiserver")
}
