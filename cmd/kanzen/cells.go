package main

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// This file has text for terminals: lines of spans that have a style, measured and cut in cells of the screen.

// style is how a span looks: the parameters of the terminal's SGR sequence.
type style string

const (
	plainly  style = ""
	bold     style = "1"
	dim      style = "2"
	reversed style = "7"
	red      style = "31"
	green    style = "32"
	yellow   style = "33"
	cyan     style = "36"
)

// span is a text in one style. It has only visible characters: styled is what makes one.
type span struct {
	text  string
	style style
}

// styled makes a span of a format of ours with values of others.
func styled(s style, format string, args ...any) span { return span{told(format, args...), s} }

// line is a line of a screen.
type line []span

func (l line) cells() (n int) {
	for _, s := range l {
		n += cells(s.text)
	}
	return n
}

// cut leaves out what is beyond a width.
func (l line) cut(width int) line {
	for n, s := range l {
		c := cells(s.text)
		if c > width {
			return append(l[:n:n], span{head(s.text, width), s.style})
		}
		width -= c
	}
	return l
}

// text is the line as a terminal gets it.
func (l line) text(colours bool) string {
	var b strings.Builder
	for _, s := range l {
		if colours && s.style != plainly {
			b.WriteString("\x1b[" + string(s.style) + "m" + s.text + "\x1b[0m")
		} else {
			b.WriteString(s.text)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// cellsOf is how many cells of a screen a character takes: those of East Asian scripts and emoji take two, and those that combine
// with the one before take none.
func cellsOf(c rune) int {
	switch {
	case c < 0x300:
		return 1
	case unicode.In(c, unicode.Mn, unicode.Me):
		return 0
	}
	if k := width.LookupRune(c).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
		return 2
	}
	return 1
}

func cells(s string) (n int) {
	for _, c := range s {
		n += cellsOf(c)
	}
	return n
}

// head returns the beginning of a text that has room in a width.
func head(s string, width int) string {
	for n, c := range s {
		if width -= cellsOf(c); width < 0 {
			return s[:n]
		}
	}
	return s
}

// tail returns the end of a text that has room in a width.
func tail(s string, width int) string {
	all := []rune(s)
	for n := len(all) - 1; n >= 0; n-- {
		if width -= cellsOf(all[n]); width < 0 {
			return string(all[n+1:])
		}
	}
	return s
}

// shortened leaves out the middle of a text that is too wide: names differ at their ends.
func shortened(s string, width int) string {
	if cells(s) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	return head(s, width/2) + "…" + tail(s, width-1-width/2)
}

// padded fills a text to a width, and shortens it to that.
func padded(s string, width int, right bool) string {
	s = shortened(s, width)
	room := strings.Repeat(" ", max(0, width-cells(s)))
	if right {
		return room + s
	}
	return s + room
}

// sparks draws values, each as a bar of one cell. The highest one is as high as a line; there is none for 0.
func sparks(values []float64) string {
	const bars = "▁▂▃▄▅▆▇█"
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range values {
		if v <= 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteRune([]rune(bars)[min(7, int(v/most*8))])
	}
	return b.String()
}
