package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kanzen-io/kanzen/bench/side"
)

// limits are the sides that do only what no server can do without.
var limits = []string{side.Bare, side.Etcd, side.Commit}

// section is a table of the report.
type section struct{ title, text string }

// share is the unit of what is a part of something.
const share = "%"

// figure is a row of a table: one quantity, measured on each side in each run.
type figure struct {
	section section
	row     string
	unit    string
	higher  bool // is better
	samples map[string][]float64
}

// results collects what was measured, in the order in which it first came.
type results struct {
	figures []*figure
	sizes   []*size
}

// size is how long the answers to a load are, in bytes.
type size struct {
	load  load
	sides map[string]int
}

func (r *results) add(s section, row, unit, name string, value float64) {
	r.figure(s, row, unit, false).record(name, value)
}

func (r *results) addHigher(s section, row, unit, name string, value float64) {
	r.figure(s, row, unit, true).record(name, value)
}

func (f *figure) record(name string, value float64) {
	f.samples[name] = append(f.samples[name], value)
}

func (r *results) figure(s section, row, unit string, higher bool) *figure {
	for _, f := range r.figures {
		if f.section == s && f.row == row {
			return f
		}
	}
	f := &figure{section: s, row: row, unit: unit, higher: higher, samples: map[string][]float64{}}
	r.figures = append(r.figures, f)
	return f
}

// addLoad records what a side did with a load.
func (r *results) addLoad(name string, l load, c cost) {
	r.add(cpuSection, l.title, "ms", name, c.each())
	r.add(p50Section, l.title, "ms", name, ms(side.Percentile(c.took, 50)))
	if slices.Contains(limits, name) {
		return
	}
	if l.clients > 1 { // one client sends too few requests for that
		r.add(p99Section, l.title, "ms", name, ms(side.Percentile(c.took, 99)))
	}
	r.addHigher(rateSection, l.title, "", name, c.perSecond())
}

// size records the length of an answer. It warns if the sides' answers differ by
// more than names, times and the order of fields explain: then the sides do
// not do the same.
func (r *results) size(l load, name string, n int) {
	i := slices.IndexFunc(r.sizes, func(s *size) bool { return s.load.name == l.name })
	if i < 0 {
		i = len(r.sizes)
		r.sizes = append(r.sizes, &size{load: l, sides: map[string]int{}})
	}
	sides := r.sizes[i].sides
	sides[name] = n
	if a, b := sides[side.Peer], sides[side.Kanzen]; a > 0 && b > 0 && math.Abs(float64(a-b)) > 0.02*float64(a) {
		progress("WARNING: %s: the answers differ in size: %d and %d bytes", l.name, a, b)
	}
}

// sections are the tables that have rows, in the order of the report.
func (r *results) sections() []section {
	var out []section
	for _, s := range []section{memorySection, cpuSection, watchSection, crdSection, p50Section, p99Section, rateSection, ownSection, equalSection, overSection, pauseSection} {
		if slices.ContainsFunc(r.figures, func(f *figure) bool { return f.section == s }) {
			out = append(out, s)
		}
	}
	return out
}

func (r *results) rows(s section) []*figure {
	return slices.DeleteFunc(slices.Clone(r.figures), func(f *figure) bool { return f.section != s })
}

// value is the median of the runs.
func (f *figure) value(name string) float64 { return side.Median(f.samples[name]) }

// ratios are how many times better a side is than the peer, run by run: what slowed both sides of a run down is not in them. Shares
// have none: the best is zero.
func (f *figure) ratios(name string) []float64 {
	if f.unit == share {
		return nil
	}
	peer, kanzen := f.samples[side.Peer], f.samples[name]
	var out []float64
	for i := range min(len(peer), len(kanzen)) {
		better, worse := peer[i], kanzen[i]
		if f.higher {
			better, worse = worse, better
		}
		if worse != 0 { // no number says how much better nothing is
			out = append(out, better/worse)
		}
	}
	return out
}

// cell is what a table says of a side: the median, and from where to where the runs go.
func (f *figure) cell(name string) string {
	return strings.TrimSpace(number(f.value(name), f.unit) + " " + spread(f.samples[name]))
}

// better is the same of the ratios.
func (f *figure) better(name string) string {
	ratios := f.ratios(name)
	return strings.TrimSpace(times(side.Median(ratios)) + " " + spread(ratios))
}

// spread is the smallest and the largest of some values, if there is more than one.
func spread(values []float64) string {
	if len(values) < 2 {
		return ""
	}
	return "(" + number(slices.Min(values), "") + "–" + number(slices.Max(values), "") + ")"
}

// number formats a value with three digits that count.
func number(v float64, unit string) string {
	if math.IsNaN(v) {
		return ""
	}
	digits := 2
	if v > 0 {
		digits = min(4, max(0, 2-int(math.Floor(math.Log10(v)))))
	}
	return strings.TrimSpace(fmt.Sprintf("%.*f %s", digits, v, unit))
}

func times(ratio float64) string {
	if math.IsNaN(ratio) {
		return ""
	}
	return number(ratio, "") + "×"
}

// tables is all tables in Markdown, aligned so that they read well as text.
func (r *results) tables() string {
	var out strings.Builder
	for _, s := range r.sections() {
		fmt.Fprintf(&out, "### %s\n\n", s.title)
		if s.text != "" {
			fmt.Fprintf(&out, "%s\n\n", s.text)
		}
		rows := r.rows(s)
		cells := [][]string{{""}}
		for _, f := range rows {
			cells = append(cells, []string{f.row})
		}
		column := func(head string, cell func(f *figure) string) {
			cells[0] = append(cells[0], head)
			for i, f := range rows {
				cells[i+1] = append(cells[i+1], cell(f))
			}
		}
		measured := func(name string) bool {
			return slices.ContainsFunc(rows, func(f *figure) bool { return len(f.samples[name]) > 0 })
		}
		column(side.Peer, func(f *figure) string { return f.cell(side.Peer) })
		for _, name := range []string{side.Kanzen, side.Pebble} {
			if name == side.Kanzen || measured(name) {
				column(name, func(f *figure) string { return f.cell(name) })
				column(name+" is better by", func(f *figure) string { return f.better(name) })
			}
		}
		for _, limit := range limits {
			if measured(limit) {
				column(limit, func(f *figure) string { return f.cell(limit) })
			}
		}
		writeTable(&out, cells)
		out.WriteString("\n")
	}
	return out.String()
}

// writeTable writes a Markdown table: the first column to the left, numbers to the right.
func writeTable(out *strings.Builder, cells [][]string) {
	width := make([]int, len(cells[0]))
	for _, row := range cells {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c), 3)
		}
	}
	for n, row := range cells {
		for i, c := range row {
			w := width[i]
			if i == 0 {
				w = -w
			}
			fmt.Fprintf(out, "| %*s ", w, c)
		}
		out.WriteString("|\n")
		if n > 0 {
			continue
		}
		for i, w := range width {
			if i == 0 {
				out.WriteString("|" + strings.Repeat("-", w+2))
			} else {
				out.WriteString("|" + strings.Repeat("-", w+1) + ":")
			}
		}
		out.WriteString("|\n")
	}
}

// write writes results.md and results.svg into dir.
func (r *results) write(dir, conditions string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	page := "# kanzen compared with kube-apiserver\n\n![each measurement, for both servers](results.svg)\n\n" +
		"Made by `make bench`; [bench/README.md](../../bench/README.md) explains how each number is measured.\n\n" +
		conditions + "\n" + r.tables()
	if err := os.WriteFile(filepath.Join(dir, "results.md"), []byte(page), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "results.svg"), []byte(r.plot()), 0o644)
}

// conditions says under which circumstances the numbers were measured.
func (r *results) conditions(runs int, which string) string {
	made := "one run"
	if runs > 1 {
		made = fmt.Sprintf("median of %d runs, with the lowest and the highest in brackets", runs)
	}
	lines := []string{
		fmt.Sprintf("kube-apiserver v1.37.2 with etcd in a process of its own, and kanzen (%s) on its embedded etcd and on Pebble, all with fsync on", which),
		side.Machine() + "; servers and load generator share the machine",
		made + "; " + time.Now().UTC().Format(time.DateOnly),
	}
	for _, s := range r.sizes {
		lines = append(lines, fmt.Sprintf("%s: the answer has %d bytes (%s) and %d bytes (%s)",
			s.load.title, s.sides[side.Peer], side.Peer, s.sides[side.Kanzen], side.Kanzen))
	}
	var out strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&out, "- %s\n", l)
	}
	return out.String()
}
