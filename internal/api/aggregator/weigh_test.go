package aggregator

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/openapi"
)

var wanted = []*service{{GroupVersion: schema.GroupVersion{Group: "a.test", Version: "v1"}}, {GroupVersion: schema.GroupVersion{Group: "b.test", Version: "v1"}}}

// repeated returns n texts separated by commas.
func repeated(n int, each func(i int) string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(each(i))
	}
	return b.String()
}

func v2Document(paths, definitions string) []byte {
	return []byte(`{"swagger":"2.0","info":{"title":"x","version":"1"},"paths":{` + paths + `},"definitions":{` + definitions + `}}`)
}

// TestHostileDocuments decodes documents that are as large as they may be and made to need memory. What is needed stays
// below some times the size of the largest sound document, and a sound part is shown beside them.
func TestHostileDocuments(t *testing.T) {
	const sound = `"/apis/b.test/v1/things":{"get":{"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/Thing"}}}}}`
	const thing = `"Thing":{"type":"object"}`
	empty := func(i int) string { return fmt.Sprintf(`"d%d":{}`, i) }
	parameter := func(i int) string { return fmt.Sprintf(`{"$ref":"#/definitions/d%d"}`, i) }
	for name, doc := range map[string][]byte{
		"definitions":        v2Document(sound, repeated(700_000, empty)+","+thing),
		"as many as may be":  v2Document(`"/apis/a.test/v1/x":{"get":{"parameters":[`+repeated(30_000, parameter)+`]}},`+sound, repeated(90_000, empty)+","+thing),
		"parameters":         v2Document(`"/apis/a.test/v1/x":{"get":{"parameters":[`+repeated(200_000, parameter)+`]}},`+sound, repeated(90_000, empty)+","+thing),
		"paths":              v2Document(repeated(500_000, func(i int) string { return fmt.Sprintf(`"/apis/a.test/v1/%d":{}`, i) })+","+sound, thing),
		"paths of others":    v2Document(repeated(500_000, func(i int) string { return fmt.Sprintf(`"/apis/c.test/v1/%d":{}`, i) })+","+sound, thing),
		"numbers":            v2Document(`"/apis/a.test/v1/x":{"x-y":[`+repeated(2_000_000, func(int) string { return "1" })+`]},`+sound, thing),
		"nested":             v2Document(`"/apis/a.test/v1/x":`+strings.Repeat(`{"x-y":`, 9_000)+"1"+strings.Repeat("}", 9_000)+","+sound, thing),
		"a long text":        v2Document(`"/apis/a.test/v1/x":{"x-y":"`+strings.Repeat("x", 20<<20)+`"},`+sound, thing),
		"recursive":          v2Document(`"/apis/a.test/v1/x":{"$ref":"#/definitions/R"},`+sound, `"R":{"$ref":"#/definitions/R"},`+thing),
		"not what it may be": v2Document(`"/apis/a.test/v1/x":[7],`+sound, thing),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := packV2(doc, wanted, nil)
			runtime.ReadMemStats(&after)
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 300 {
				t.Errorf("%d MiB were allocated", used)
			}
			if _, ok := got[wanted[1].GroupVersion]; !ok && name != "definitions" {
				t.Errorf("the sound part is left out: %v", err)
			}
			if p, ok := got[wanted[0].GroupVersion]; ok {
				if part, err := p.unpack(); err != nil || bounded(part) != nil {
					t.Errorf("a part of %d bytes is too large: %v", len(part), err)
				}
			}
		})
	}
}

// TestAggregatedDiscoveryIsBounded decodes large discovery documents.
func TestAggregatedDiscoveryIsBounded(t *testing.T) {
	for name, inner := range map[string]string{
		"groups":    repeated(maxDiscovery/3, func(int) string { return "{}" }),
		"versions":  `{"versions":[` + repeated(maxDiscovery/3, func(int) string { return "{}" }) + `]}`,
		"resources": `{"versions":[{"resources":[` + repeated(maxDiscovery/3, func(int) string { return "{}" }) + `]}]}`,
		"verbs":     `{"versions":[{"resources":[{"verbs":[` + repeated(maxDiscovery/3, func(int) string { return `""` }) + `]}]}]}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := parseAggregated([]byte(`{"items":[` + inner + `]}`))
		runtime.ReadMemStats(&after)
		if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 100 || err == nil {
			t.Errorf("%s: %d MiB were allocated: %v", name, used, err)
		}
	}
}

// TestWeigh compares the bounds of random documents with what is in them.
func TestWeigh(t *testing.T) {
	var count func(v any) (values, depth int)
	count = func(v any) (values, depth int) {
		values = 1
		each := func(v any) {
			n, d := count(v)
			values, depth = values+n, max(depth, d)
		}
		switch v := v.(type) {
		case map[string]any:
			for _, m := range v {
				each(m)
			}
			depth++
		case []any:
			for _, m := range v {
				each(m)
			}
			depth++
		}
		return values, depth
	}
	r := rand.New(rand.NewPCG(1, 2))
	var random func(depth int) any
	random = func(depth int) any {
		switch n := r.IntN(6); {
		case depth > 0 && n < 2:
			list := make([]any, r.IntN(4))
			for i := range list {
				list[i] = random(depth - 1)
			}
			return list
		case depth > 0 && n < 4:
			object := map[string]any{}
			for range r.IntN(4) {
				object[[]string{"a", `"`, `\`, "{,", "]"}[r.IntN(5)]] = random(depth - 1)
			}
			return object
		}
		return []any{nil, 1, true, `",[{\`, ""}[r.IntN(5)]
	}
	for range 2000 {
		v := random(6)
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		values, depth := count(v)
		if got, deep := weigh(data); got < values || got > 2*values || deep != depth {
			t.Errorf("%s: %d values, depth %d; there are %d, %d", data, got, deep, values, depth)
		}
	}
}

// FuzzReadV2 divides arbitrary documents.
func FuzzReadV2(f *testing.F) {
	f.Add(v2Document(`"/apis/a.test/v1/x":{"get":{"x":{"$ref":"#/definitions/a\"b"}}}`, `"a\"b":{}`))
	f.Add([]byte(`{"paths":[1,2],"definitions":7}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		got, _ := packV2(doc, wanted, nil)
		for gv, p := range got {
			part, err := p.unpack()
			if err != nil || !json.Valid(part) {
				t.Errorf("%s: %q, %v", gv, part, err)
			}
			_, _ = openapi.Parsed(part, convert)
		}
	})
}
