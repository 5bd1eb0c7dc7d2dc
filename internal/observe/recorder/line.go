package recorder

import (
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// line is JSON that is being written: a record in a file. There nobody asks who may get an object, so it has no values and no
// messages. Every write makes one, and encoding/json takes three allocations for each of its dozen durations; what it writes is
// the same.
type line []byte

// record writes a record.
func (l line) record(r *v1alpha1.Record) line {
	l = append(l, `{"number":`...)
	l = strconv.AppendInt(l, r.Number, 10)
	l = append(l, `,"time":`...)
	if r.Time.IsZero() {
		l = append(l, "null"...)
	} else {
		l = append(l, '"')
		l = r.Time.UTC().AppendFormat(l, metav1.RFC3339Micro)
		l = append(l, '"')
	}
	l = l.duration("duration", r.Duration).text("auditID", r.AuditID).must("kept", r.Kept).flag("slow", r.Slow)
	l = append(l, `,"weight":`...)
	l = strconv.AppendInt(l, r.Weight, 10)
	l = l.text("user", r.User).text("impersonated", r.Impersonated).text("userAgent", r.UserAgent).text("sourceIP", r.SourceIP).
		flag("console", r.Console).must("verb", r.Verb).text("path", r.Path).text("group", r.Group).text("version", r.Version).
		text("resource", r.Resource).text("subresource", r.Subresource).text("namespace", r.Namespace).text("name", r.Name).
		flag("dryRun", r.DryRun)
	l = append(l, `,"code":`...)
	l = strconv.AppendInt(l, int64(r.Code), 10)
	l = l.text("reason", r.Reason)
	l = items(l, "fields", r.Fields, func(l line, s *string) line { return l.quoted(*s) })
	l = l.number("requestBytes", r.RequestBytes).number("responseBytes", r.ResponseBytes)
	l = items(l, "layers", r.Layers, line.layer)
	l = items(l, "steps", r.Steps, line.step).number("moreSteps", int64(r.MoreSteps))
	l = items(l, "changes", r.Changes, line.change).number("moreChanges", int64(r.MoreChanges))
	return append(l, '}')
}

func (l line) layer(y *v1alpha1.Layer) line {
	l = append(l, `{"name":`...)
	l = l.quoted(y.Name)
	if y.After != nil {
		l = l.duration("after", *y.After)
	}
	return append(l.duration("duration", y.Duration), '}')
}

func (l line) step(s *v1alpha1.Step) line {
	l = append(l, `{"kind":`...)
	l = l.quoted(s.Kind).must("name", s.Name).text("phase", s.Phase).duration("after", s.After).duration("duration", s.Duration).
		must("result", s.Result).text("reason", s.Reason).flag("ignored", s.Ignored).flag("changed", s.Changed)
	return append(l, '}')
}

func (l line) change(c *v1alpha1.Change) line {
	l = append(l, `{"operation":`...)
	l = l.quoted(c.Operation).text("group", c.Group).must("resource", c.Resource).text("kind", c.Kind).text("namespace", c.Namespace).
		must("name", c.Name).text("uid", c.UID).text("resourceVersion", c.ResourceVersion)
	l = items(l, "fields", c.Fields, line.field).number("moreFields", int64(c.MoreFields))
	return append(l, '}')
}

func (l line) field(f *v1alpha1.FieldChange) line {
	l = append(l, `{"path":`...)
	return append(l.quoted(f.Path).flag("hidden", true), '}')
}

// items writes a list that is not empty.
func items[T any](l line, name string, list []T, write func(line, *T) line) line {
	if len(list) == 0 {
		return l
	}
	l = append(l.key(name), '[')
	for n := range list {
		if n > 0 {
			l = append(l, ',')
		}
		l = write(l, &list[n])
	}
	return append(l, ']')
}

// key begins a member that is not the first.
func (l line) key(name string) line {
	l = append(l, `,"`...)
	l = append(l, name...)
	return append(l, `":`...)
}

func (l line) must(name, s string) line { return l.key(name).quoted(s) }

func (l line) text(name, s string) line {
	if s == "" {
		return l
	}
	return l.must(name, s)
}

func (l line) flag(name string, is bool) line {
	if !is {
		return l
	}
	return append(l.key(name), "true"...)
}

func (l line) number(name string, n int64) line {
	if n == 0 {
		return l
	}
	return strconv.AppendInt(l.key(name), n, 10)
}

func (l line) duration(name string, d metav1.Duration) line {
	l = append(l.key(name), '"')
	l = append(l, d.Duration.String()...)
	return append(l, '"')
}

// quoted writes a text. Characters of HTML stand as they are, for whoever reads the file.
func (l line) quoted(s string) line {
	l = append(l, '"')
	for {
		at := strings.IndexAny(s, "<>&")
		if at < 0 {
			at = len(s)
		}
		from := len(l) - 1 // what stands before takes the place of the opening quote
		before := l[from]
		l = jsonobject.AppendString(l[:from], s[:at])
		l[from] = before
		if at == len(s) {
			return l
		}
		l[len(l)-1] = s[at] // for the closing quote
		s = s[at+1:]
	}
}
