package recorder

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// filled sets all fields of a value to something.
func filled(v reflect.Value, n *int) {
	*n++
	switch at := v.Addr().Interface().(type) {
	case *metav1.MicroTime:
		*at = metav1.NewMicroTime(time.UnixMicro(int64(*n)))
		return
	case *metav1.Duration:
		at.Duration = time.Duration(*n)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			filled(v.Index(i), n)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			filled(v.Field(i), n)
		}
	default:
		panic(v.Type())
	}
}

// addresses calls f with the addresses of all that a value holds on to, and with the paths there.
func addresses(v reflect.Value, path string, f func(string, unsafe.Pointer)) {
	switch v.Kind() {
	case reflect.String:
		f(path, unsafe.Pointer(unsafe.StringData(v.String())))
	case reflect.Pointer:
		if v.Type() != reflect.TypeFor[*time.Location]() && !v.IsNil() {
			f(path, v.UnsafePointer())
			addresses(v.Elem(), path, f)
		}
	case reflect.Slice:
		f(path, v.UnsafePointer())
		for i := range v.Len() {
			addresses(v.Index(i), path, f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			addresses(v.Field(i), path+"."+v.Type().Field(i).Name, f)
		}
	}
}

// TestPackedWhole packs a record and a history of which each field is set. What comes of it is the same, and holds on to nothing of them.
func TestPackedWhole(t *testing.T) {
	var p packer
	n := 0
	check := func(in, out reflect.Value) {
		if !reflect.DeepEqual(in.Interface(), out.Interface()) {
			t.Errorf("%+v is %+v", in, out)
		}
		before := map[unsafe.Pointer]string{}
		addresses(in, in.Type().Name(), func(path string, at unsafe.Pointer) { before[at] = path })
		addresses(out, in.Type().Name(), func(_ string, at unsafe.Pointer) {
			if path, ok := before[at]; ok {
				t.Errorf("%s is where it was", path)
			}
		})
	}
	var rec v1alpha1.Record
	filled(reflect.ValueOf(&rec).Elem(), &n)
	check(reflect.ValueOf(rec), reflect.ValueOf(*p.record(&rec)))
	of := past{entries: make([]v1alpha1.HistoryEntry, 2), bytes: 1, forgotten: 2}
	filled(reflect.ValueOf(&of.object).Elem(), &n)
	for i := range of.entries {
		filled(reflect.ValueOf(&of.entries[i]).Elem(), &n)
	}
	check(reflect.ValueOf(of), reflect.ValueOf(*p.past(&of)))
}

// TestPackedAnyTime has two recorders keep the same, and packs one of them now and then: it answers as the other.
func TestPackedAnyTime(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	plain, packed := newRing(40<<10), newRing(40<<10)
	histories := [3]*history{newHistory(10 << 20), newHistory(10 << 20), newHistory(60 << 10)} // the last one drops some, according to its size
	histories[1].seed = histories[0].seed
	for n := range 4000 {
		rec := &v1alpha1.Record{Number: int64(n), Name: fmt.Sprint("name ", n), User: fmt.Sprint("user ", random.IntN(3)), Fields: make([]string, random.IntN(2))}
		// Rings choose a shard at random: both get the same.
		shard := random.IntN(shards)
		plain.shards[shard].push(rec)
		packed.shards[shard].push(rec)
		e := v1alpha1.HistoryEntry{User: rec.User, UID: rec.Name, Code: 200}
		if random.IntN(5) == 0 {
			e.Code = 409
		}
		of := v1alpha1.ObjectReference{Resource: "pods", Namespace: "n", Name: fmt.Sprint(min(random.IntN(400), random.IntN(400)))}
		for _, h := range histories {
			h.add(of, e)
		}
		if random.IntN(100) == 0 {
			packed.pack()
			histories[1].pack()
			histories[2].pack()
		}
	}
	for n := range shards {
		a, b := &plain.shards[n], &packed.shards[n]
		if a.bytes != b.bytes || a.gone != b.gone || !reflect.DeepEqual(a.records[a.first:], b.records[b.first:]) {
			t.Errorf("shard %d: %d records of %d bytes, %d of %d", n, len(a.records)-a.first, a.bytes, len(b.records)-b.first, b.bytes)
		}
		want, got := inOrder(t, &histories[0].shards[n]), inOrder(t, &histories[1].shards[n])
		if !reflect.DeepEqual(want, got) {
			t.Errorf("shard %d: %d objects, %d", n, len(want), len(got))
		}
		if some := inOrder(t, &histories[2].shards[n]); len(some) == 0 || len(some) >= len(want) {
			t.Errorf("shard %d: %d of %d objects are left", n, len(some), len(want))
		}
	}
}

func newRing(limit int64) *ring {
	r := &ring{}
	r.init(limit)
	return r
}

// inOrder returns what is in a history, in its order. It checks that this is all, and that its bytes are counted.
func inOrder(t *testing.T, s *histories) (all []past) {
	var bytes int64
	for _, l := range []*pasts{&s.slim, &s.full} {
		for p := l.first; p != nil; p = p.after {
			if s.objects[p.object] != p || p.in != l {
				t.Errorf("%v is lost", p.object)
			}
			bytes += p.bytes
			q := *p
			q.in, q.before, q.after, q.bytes = nil, nil, nil, 0
			all = append(all, q)
		}
	}
	if len(all) != len(s.objects) || bytes != s.bytes {
		t.Errorf("%d of %d objects, %d of %d bytes", len(all), len(s.objects), bytes, s.bytes)
	}
	return all
}

// BenchmarkPack packs a full memory of the default size. Requests wait for packAtATime records of a ring, and for a shard of the history.
func BenchmarkPack(b *testing.B) {
	var rec v1alpha1.Record
	n := 0
	filled(reflect.ValueOf(&rec).Elem(), &n)
	fill := func() (*ring, *history) {
		r, h := newRing(4<<20), newHistory(4<<20)
		for n := range 10000 {
			kept := rec
			r.push(&kept)
			var e v1alpha1.HistoryEntry
			filled(reflect.ValueOf(&e).Elem(), &n)
			h.add(v1alpha1.ObjectReference{Resource: "pods", Name: fmt.Sprint(n)}, e)
		}
		return r, h
	}
	var rings, shard time.Duration
	for b.Loop() {
		b.StopTimer()
		r, h := fill()
		b.StartTimer()
		var p packer
		began := time.Now()
		r.shards[0].pack(&p)
		rings += time.Since(began)
		began = time.Now()
		h.shards[0].pack(&p)
		shard += time.Since(began)
	}
	b.ReportMetric(float64(rings.Microseconds())/float64(b.N), "µs/records")
	b.ReportMetric(float64(shard.Microseconds())/float64(b.N), "µs/shard")
}
