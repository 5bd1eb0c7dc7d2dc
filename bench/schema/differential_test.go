package schema

import (
	"context"
	"encoding/json"
	"flag"
	"reflect"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	"github.com/kanzen-io/kanzen/internal/object/schema"
)

var (
	seed   = flag.Uint64("seed", 1, "where random schemas begin")
	length = flag.Duration("for", 3*time.Second, "how long to compare")
)

// TestDifferential compares both on random schemas and objects.
func TestDifferential(t *testing.T) {
	cache := schema.NewCache(schema.Timing{})
	end := time.Now().Add(*length)
	n, skipped, objects, invalid := uint64(0), 0, 0, 0
	for ; time.Now().Before(end); n++ {
		r := newRandom(*seed, n)
		p := r.root()
		theirs, err := newPeer(p)
		if err != nil {
			skipped++
			continue
		}
		ours, err := schema.Compile(p, schema.Options{Cache: cache})
		if err != nil {
			t.Fatalf("seed %d,%d: %v\n%s", *seed, n, err, encode(p))
		}
		for range 6 {
			c := comparison{t: t, at: n, p: p, theirs: theirs, ours: ours}
			objects++
			if c.object(r) {
				invalid++
			}
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%d schemas (%d not structural), %d objects, %d of them invalid", n, skipped, objects, invalid)
}

type comparison struct {
	t      *testing.T
	at     uint64
	p      *props
	theirs *peer
	ours   *schema.Schema
	obj    map[string]any
}

func (c *comparison) equal(what string, ours, theirs any) {
	c.t.Helper()
	if !reflect.DeepEqual(ours, theirs) {
		p, _ := json.MarshalIndent(c.p, "", " ")
		c.t.Errorf("seed %d,%d: %s\nours   %s\ntheirs %s\nobject %s\nschema %s", *seed, c.at, what, show(ours), show(theirs), encode(c.obj), p)
	}
}

func show(v any) string {
	b, _ := json.MarshalIndent(v, "", " ")
	return string(b)
}

// object compares what happens to one object and an update of it. It says
// whether the object was found invalid.
func (c *comparison) object(r random) bool {
	wrong := pick(r, 0, 3, 10, 20)
	c.obj = cloneObject(r.resource(c.p, wrong))
	drop, report := r.often(30), r.often(50)
	a, b := cloneObject(c.obj), cloneObject(c.obj)
	unknownA, errA := c.ours.Coerce(a, schema.CoerceOptions{DropInvalid: drop, ReportUnknown: report})
	unknownB, errB := c.theirs.coerce(b, drop, report)
	c.equal("coerce: error", errA != nil, errB != nil)
	if errA != nil || c.t.Failed() {
		return true
	}
	c.equal("coerce: unknown fields", sorted(unknownA), sorted(unknownB))
	c.equal("coerce: object", a, b)
	c.ours.Default(a)
	c.theirs.defaults(b)
	c.equal("default", a, b)
	if c.t.Failed() {
		return false
	}
	c.obj = cloneObject(a)
	found := lines(c.theirs.create(b))
	c.similar("create",
		func() []string { return lines(c.ours.ValidateCreate(context.Background(), a).Errors) },
		func() []string { return lines(c.theirs.create(b)) })
	c.equal("object after validation", a, c.obj)
	for _, often := range []int{0, 5, 20} {
		c.update(r, often)
	}
	return len(found) > 0
}

func (c *comparison) update(r random, often int) {
	old := cloneObject(c.obj)
	was := c.obj
	defer func() { c.obj = was }()
	next, ok := r.changed(c.p, old, often).(map[string]any)
	if !ok {
		return
	}
	next = cloneObject(next)
	c.obj = map[string]any{"new": next, "old": old}
	c.similar("update",
		func() []string { return said(c.ours.ValidateUpdate(context.Background(), next, old)) },
		func() []string {
			return warned(func(ctx context.Context) field.ErrorList { return c.theirs.update(ctx, next, old) })
		})
	if c.theirs.status == nil {
		return
	}
	c.similar("update of status",
		func() []string { return said(c.ours.ValidateStatusUpdate(context.Background(), next, old)) },
		func() []string {
			return warned(func(ctx context.Context) field.ErrorList { return c.theirs.statusUpdate(ctx, next, old) })
		})
}

// similar compares answers that change from call to call, as some do whose
// expressions meet several faulty values: each side may answer what the other
// can.
func (c *comparison) similar(what string, ours, theirs func() []string) {
	c.t.Helper()
	a, b := ours(), theirs()
	if reflect.DeepEqual(a, b) {
		return
	}
	seen := map[string]bool{show(b): true}
	for range 50 {
		seen[show(theirs())] = true
	}
	for range 50 {
		if seen[show(ours())] {
			return
		}
	}
	c.equal(what, a, b)
}

func said(v schema.Verdict) []string {
	out := lines(v.Errors)
	for _, w := range sorted(v.Warnings) {
		out = append(out, "warning "+w)
	}
	return out
}

func warned(validate func(context.Context) field.ErrorList) []string {
	var warnings recorder
	out := lines(validate(warning.WithWarningRecorder(context.Background(), &warnings)))
	for _, w := range sorted(warnings) {
		out = append(out, "warning "+w)
	}
	return out
}

func sorted(list []string) []string {
	out := append([]string{}, list...)
	slices.Sort(out)
	return out
}
