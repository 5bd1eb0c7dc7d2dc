package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/internal/observe/recorder"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// stretch is a part of a request in its waterfall.
type stretch struct {
	name        string
	after, took time.Duration
	known       bool // that after is known
	style       style
	says        string
}

// stretchesOf returns the parts of a request in the order in which they began.
func stretchesOf(rec *v1alpha1.Record) []stretch {
	var out []stretch
	for _, l := range rec.Layers {
		b := stretch{name: l.Name, took: l.Duration.Duration, style: cyan}
		if l.After != nil {
			b.after, b.known = l.After.Duration, true
		}
		out = append(out, b)
	}
	for n := range rec.Steps {
		s := &rec.Steps[n]
		b := stretch{name: s.Kind + " " + s.Name, after: s.After.Duration, took: s.Duration.Duration, known: true, style: green}
		switch s.Result {
		case "Failed", "TimedOut":
			b.style, b.says = red, strings.TrimSpace(s.Result+" "+s.Reason)
		case "Refused":
			b.style, b.says = yellow, s.Result
		}
		out = append(out, b)
	}
	slices.SortStableFunc(out, func(a, b stretch) int { return cmp.Compare(a.after, b.after) })
	return out
}

// waterfall shows a request: what it was, and where its time went; where there is no room for all, that comes first.
func waterfall(rec *v1alpha1.Request, room, height int) []line {
	status := styled(bold, "%d", rec.Code)
	switch {
	case rec.Code >= 500:
		status.style = red
	case rec.Code >= 400:
		status.style = yellow
	}
	title := line{styled(bold, "%s %s ", rec.Verb, recorder.ObjectOf(&rec.Record)), status, styled(plainly, " in %s, %s (%s)", short(rec.Duration.Duration), rec.Time.Local().Format("15:04:05.000"), rec.ObjectMeta.Name)}
	about, parts := aboutLines(rec), partLines(&rec.Record, room)
	if 2+len(about)+len(parts) > height {
		return append(append([]line{title}, parts...), about...)
	}
	return append(append(append([]line{title}, about...), line{}), parts...)
}

func aboutLines(rec *v1alpha1.Request) (out []line) {
	for _, a := range [][2]string{{"user", rec.User}, {"as", rec.Impersonated}, {"client", rec.UserAgent + " " + rec.SourceIP}, {"reason", rec.Reason}, {"message", rec.Message}, {"audit ID", rec.AuditID}} {
		if a[1] != "" {
			out = append(out, line{styled(dim, "  %-9s", a[0]), styled(plainly, "%s", a[1])})
		}
	}
	return out
}

// partLines draw a bar for each part of a request, under an axis of its time.
func partLines(rec *v1alpha1.Record, room int) []line {
	parts, says := stretchesOf(rec), 0
	for _, b := range parts {
		says = max(says, min(24, room/6, cells(told("%s", b.says))+1))
	}
	names := max(12, min(44, room/3))
	wide := room - names - 12 - says // of the bars
	if wide < 8 {
		wide = 0
	}
	axis := ""
	if wide > 0 {
		end := short(rec.Duration.Duration)
		axis = "0" + strings.Repeat(" ", max(1, wide-1-cells(end))) + end
	}
	out := []line{{styled(bold, "  %s", padded("PART", names, false)), styled(bold, " %8s ", "TOOK"), styled(dim, "%s", axis)}}
	for _, b := range parts {
		l := line{styled(plainly, "  %s", padded(told("%s", b.name), names, false)), styled(latency(b.took).style, " %8s ", short(b.took))}
		if wide > 0 && b.known {
			from := min(portion(b.after, rec.Duration.Duration, wide), wide-1)
			length := max(1, min(portion(b.took, rec.Duration.Duration, wide), wide-from))
			l = append(l, span{strings.Repeat(" ", from), plainly}, span{strings.Repeat("█", length), b.style})
		}
		if b.says != "" {
			l = append(l, styled(b.style, " %s", b.says))
		}
		out = append(out, l)
	}
	return out
}

// portion is how many cells a time takes of those of the whole.
func portion(d, whole time.Duration, cells int) int {
	if whole <= 0 || d <= 0 {
		return 0
	}
	return min(cells, int(float64(d)/float64(whole)*float64(cells)))
}
