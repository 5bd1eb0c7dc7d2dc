package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kanzen-io/kanzen/bench/side"
)

// panel is a drawing and a table of the report on growth: curves of one unit over one number.
type panel struct{ title, number, unit string }

// curve is what one thing costs a side, over how many there are.
type curve struct {
	panel  panel
	side   string
	name   string
	points []point // in growing order of n
}

type point struct {
	n     int
	value float64
}

// curves collects what was measured, in the order in which it first came.
type curves struct{ all []*curve }

func (c *curves) add(p panel, of, name string, n int, value float64) {
	progress("%s: %s: %s: %d: %s", of, p.title, name, n, number(value, p.unit))
	at := slices.IndexFunc(c.all, func(c *curve) bool { return c.panel == p && c.side == of && c.name == name })
	if at < 0 {
		at = len(c.all)
		c.all = append(c.all, &curve{panel: p, side: of, name: name})
	}
	c.all[at].points = append(c.all[at].points, point{n, value})
}

// panels are those that have curves.
func (c *curves) panels() []panel {
	var out []panel
	for _, c := range c.all {
		if !slices.Contains(out, c.panel) {
			out = append(out, c.panel)
		}
	}
	return out
}

func (c *curves) of(p panel) []*curve {
	return slices.DeleteFunc(slices.Clone(c.all), func(c *curve) bool { return c.panel != p })
}

func (c *curve) label() string { return c.side + ": " + c.name }

// exponent says how a value grows between two points: as N to the power of it. Zero is not at all, one is linear.
func exponent(a, b point) float64 {
	return math.Log(b.value/a.value) / math.Log(float64(b.n)/float64(a.n))
}

// bend is by how much exponents differ where a curve is said to bend.
const bend = 0.4

// growth says in words how a curve grows, and where it bends.
func (c *curve) growth() string {
	last := len(c.points) - 1
	if last < 1 {
		return "one point"
	}
	for _, p := range c.points {
		if p.value <= 0 {
			return "nothing to measure at " + thousands(p.n)
		}
	}
	text := fmt.Sprintf("N^%.2f from %s to %s", exponent(c.points[0], c.points[last]), thousands(c.points[0].n), thousands(c.points[last].n))
	for i := 1; i < last; i++ {
		before, after := exponent(c.points[i-1], c.points[i]), exponent(c.points[i], c.points[i+1])
		if math.Abs(after-before) >= bend {
			text += fmt.Sprintf("; bends at %s, from N^%.2f to N^%.2f", thousands(c.points[i].n), before, after)
		}
	}
	return text
}

// thousands writes a number with commas.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// tables is a table for each panel and how its curves grow, in Markdown.
func (c *curves) tables() string {
	var out strings.Builder
	for _, p := range c.panels() {
		fmt.Fprintf(&out, "### %s\n\n", p.title)
		cells := [][]string{{p.number}}
		var sizes []int
		for _, c := range c.of(p) {
			cells[0] = append(cells[0], c.label())
			for _, at := range c.points {
				sizes = append(sizes, at.n)
			}
		}
		slices.Sort(sizes)
		for _, n := range slices.Compact(sizes) {
			row := []string{thousands(n)}
			for _, c := range c.of(p) {
				at := slices.IndexFunc(c.points, func(p point) bool { return p.n == n })
				if at < 0 {
					row = append(row, "")
				} else {
					row = append(row, number(c.points[at].value, p.unit))
				}
			}
			cells = append(cells, row)
		}
		writeTable(&out, cells)
		out.WriteString("\n")
		for _, c := range c.of(p) {
			fmt.Fprintf(&out, "- %s: %s\n", c.label(), c.growth())
		}
		out.WriteString("\n")
	}
	return out.String()
}

// write writes scale.md and scale.svg into dir.
func (c *curves) write(dir, conditions string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	page := "# How costs grow\n\n![costs by number, both axes logarithmic](scale.svg)\n\n" +
		"Made by `cd bench && go run . -growth`; [bench/README.md](../../bench/README.md#growth) explains how each number is measured. " +
		"N^0 means no growth, and N^1 means linear growth. A curve is said to bend where the exponent changes by " + fmt.Sprint(bend) + " or more.\n\n" +
		conditions + "\n" + c.tables()
	if err := os.WriteFile(filepath.Join(dir, "scale.md"), []byte(page), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "scale.svg"), []byte(c.plot()), 0o644)
}

// colors of the curves of a panel, in their order.
var colors = []string{"#c8553d", "#2f6f9f", "#5b8c3e", "#8a5a9e", "#9aa5b1", "#b08a2e", "#3b9a9a", "#57606a"}

// plot draws the panels, two beside each other, with logarithms on both axes of the same scale everywhere: what is linear rises
// by as much as it goes to the right.
func (c *curves) plot() string {
	const (
		width, height = 520, 380 // of a panel
		columns       = 2
	)
	var d drawing
	panels := c.panels()
	for i, p := range panels {
		c.panel(&d, p, i%columns*width, i/columns*height)
	}
	return d.svg(columns*width, (len(panels)+columns-1)/columns*height, "cost as N grows")
}

// panel draws one panel with its corner at x, y.
func (c *curves) panel(d *drawing, p panel, x, y int) {
	const (
		left, top, wide, high = 70, 40, 420, 200
	)
	var ns, values []float64
	for _, c := range c.of(p) {
		for _, at := range c.points {
			if at.value > 0 {
				ns, values = append(ns, math.Log10(float64(at.n))), append(values, math.Log10(at.value))
			}
		}
	}
	unit := p.unit
	if unit != "" {
		unit = ", " + unit
	}
	d.text(x+16, y+22, "title", p.title+unit)
	if len(ns) == 0 {
		return
	}
	// A decade has the same length on both axes, unless there are more of them upwards than there is room for.
	fromN, toN := math.Floor(slices.Min(ns)), math.Max(math.Ceil(slices.Max(ns)), math.Floor(slices.Min(ns))+1)
	fromV, toV := math.Floor(slices.Min(values)), math.Max(math.Ceil(slices.Max(values)), math.Floor(slices.Min(values))+1)
	scale := math.Min(wide/(toN-fromN), high/(toV-fromV))
	at := func(n, v float64) [2]float64 {
		return [2]float64{float64(x+left) + (n-fromN)*scale, float64(y+top+high) - (v-fromV)*scale}
	}
	for n := fromN; n <= toN; n++ {
		d.line([][2]float64{at(n, fromV), at(n, toV)}, "#e1e4e8", 1, false)
		d.text(int(at(n, fromV)[0]), y+top+high+16, "under", thousands(int(math.Pow(10, n))))
	}
	for v := fromV; v <= toV; v++ {
		d.line([][2]float64{at(fromN, v), at(toN, v)}, "#e1e4e8", 1, false)
		d.text(x+left-8, int(at(fromN, v)[1])+4, "left", fmt.Sprintf("%g", math.Pow(10, v)))
	}
	d.text(x+left, y+top+high+32, "value", p.number)
	for i, c := range c.of(p) {
		color := colors[i%len(colors)]
		var points [][2]float64
		for _, p := range c.points {
			if p.value > 0 {
				points = append(points, at(math.Log10(float64(p.n)), math.Log10(p.value)))
				d.dot(points[len(points)-1][0], points[len(points)-1][1], color)
			}
		}
		d.line(points, color, 2, c.side != side.Kanzen)
		row, column := i%4, i/4
		keyX, keyY := x+left+column*200, y+top+high+50+row*16
		d.line([][2]float64{{float64(keyX), float64(keyY - 4)}, {float64(keyX + 20), float64(keyY - 4)}}, color, 2, c.side != side.Kanzen)
		d.text(keyX+26, keyY, "value", c.label())
	}
}
