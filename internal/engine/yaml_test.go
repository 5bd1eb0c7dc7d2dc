package engine

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
	"github.com/kanzen-io/kanzen/internal/request"
)

// aliased is YAML with a list of aliases of one value.
func aliased(value string, times int) []byte {
	return []byte("a: &a " + value + "\nb: [" + strings.Repeat("*a,", times) + "]\n")
}

// Aliases that expand to too much are refused before they are expanded; others
// are read as the values they stand for.
func TestAliases(t *testing.T) {
	if testing.Short() {
		t.Skip("no goroutines meet here, and the race detector makes it fifty times slower")
	}
	for _, c := range []struct {
		name string
		body []byte
		long bool
	}{
		{"few", aliased("x", 10), false},
		{"many short ones", aliased("x", 10000), false},
		{"one long one", aliased(strings.Repeat("x", 1<<20), 1), false},
		{"long ones", aliased(strings.Repeat("x", 1<<20), 3), true},
		{"many", aliased(strings.Repeat("x", 50_000), 15_000), true},
		{"of what JSON escapes", aliased(`"`+strings.Repeat("<", 100_000)+`"`, 5), true},
		{"as keys", []byte("a: &a " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("{? *a : 1},", 40) + "]\n"), true},
		{"of lists", aliased("["+strings.Repeat("xxxxxxxx,", 1000)+"]", 100), false},
		{"only texts", []byte("a: '" + strings.Repeat("&a *b ", 100) + "'\nb: " + strings.Repeat("x", 2<<20)), false},
	} {
		for _, check := range []bool{false, true} {
			doc, strict, err := yamlToJSON(c.body, check)
			if c.long && !apierrors.IsBadRequest(err) || !c.long && err != nil || len(strict) > 0 {
				t.Errorf("%s, check %t: %d bytes, %v, %v", c.name, check, len(doc), strict, err)
			}
		}
	}
}

// The cost of refusing depends on the size of the YAML, not on the size of the
// expanded aliases.
func TestAliasesCost(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures memory, of which the race detector takes its own")
	}
	body := aliased(strings.Repeat("x", 90_000), 8_000) // 720 MB
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, _ = yamlToJSON(body, true)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
		t.Errorf("%d bytes of YAML took %d bytes", len(body), n)
	}
}

// A duplicate field is reported, and the last one counts.
func TestStrictYAML(t *testing.T) {
	doc, strict, err := yamlToJSON([]byte("a: 1\na: 2\n"), true)
	if err != nil || string(doc) != `{"a":2}` || fmt.Sprint(strict) != "[yaml: unmarshal errors:\n  line 2: key \"a\" already set in map]" {
		t.Errorf("got %s, %v, %v", doc, strict, err)
	}
	if doc, strict, err = yamlToJSON([]byte("a: 1\na: 2\n"), false); err != nil || string(doc) != `{"a":2}` || strict != nil {
		t.Errorf("got %s, %v, %v", doc, strict, err)
	}
}

// JSON that skips the YAML parser would be read the same by it.
func FuzzJSONToo(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":[true,null,-5,"x\u003c\n"]}`, `{"a":1.0}`, `{"a":{"<<":{"b":1}}}`, `{"a":"\ud83d\ude00"}`, `{"a":-0}`, `{ "a" : "~", "1":01 }`,
		`{"a":"y","y":"2001-01-01","":0}`, `{"a":"=","=":"!","&a":"*a"}`, "{\"a\":\n1\n}", `{"a":"\/\b\f"}`, `{"a":123456789012345678}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !isJSONToo(data) {
			return
		}
		if _, strict, err := jsonobject.UnmarshalStrict(data); err != nil || len(strict) > 0 {
			return
		}
		doc, err := yaml.YAMLToJSON(data)
		if err != nil {
			if strings.ContainsAny(string(data), "\n\r") {
				return // YAML requires some values to be on one line
			}
			t.Fatalf("%q as YAML: %v", data, err)
		}
		want, err := jsonobject.Unmarshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := jsonobject.Unmarshal(data); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %#v, want %#v", data, got, want)
		}
	})
}

// YAML whose cost of parsing is out of proportion to its length is refused
// before it is parsed.
func TestBoundYAML(t *testing.T) {
	if testing.Short() {
		t.Skip("no goroutines meet here, and the race detector makes it fifty times slower")
	}
	var directives strings.Builder
	for n := range 100_000 {
		fmt.Fprintf(&directives, "%%TAG !a%d! tag:x\n", n)
	}
	for name, c := range map[string]struct {
		body string
		long bool
	}{
		"directives":  {directives.String() + "---\na: 1\n", true},
		"values":      {"[" + strings.Repeat("1,", 1_500_000) + "]", true},
		"fields":      {strings.Repeat("a: 1\n", 600_000), true},
		"JSON":        {`{"a":[1` + strings.Repeat(",1", 1_500_000) + "]}", false},
		"a long text": {"a: " + strings.Repeat("x y z ", 500_000), false},
		"a document":  {"%YAML 1.1\n---\na: 1\n", false},
	} {
		if _, _, err := yamlToJSON([]byte(c.body), true); apierrors.IsBadRequest(err) != c.long || !c.long && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFieldsTwiceInYAML has fields that occur more than once, in kube-apiserver's words: one error that names all, a warning for each.
func TestFieldsTwiceInYAML(t *testing.T) {
	const body = "kind: ConfigMap\nmetadata:\n  name: a\n  name: b\ndata:\n  k: v\n  k: w\n"
	want := []string{`line 4: key "name" already set in map`, `line 7: key "k" already set in map`}
	_, strict, err := yamlToJSON([]byte(body), true)
	if err != nil {
		t.Fatal(err)
	}
	ctx, warnings := request.WithWarnings(t.Context())
	err = strictErrors(ctx, strict, schema.GroupVersionKind{}, metav1.FieldValidationWarn)
	if got := warnings.Take(); err != nil || !slices.Equal(got, want) {
		t.Errorf("a write warns of %q, %v", got, err)
	}
	ctx, warnings = request.WithWarnings(t.Context())
	err = strictConfig(ctx, strict, metav1.FieldValidationWarn)
	if got := warnings.Take(); err != nil || !slices.Equal(got, want) {
		t.Errorf("an apply warns of %q, %v", got, err)
	}
	lines := "yaml: unmarshal errors:\n  " + want[0] + "\n  " + want[1]
	if err := strictErrors(ctx, strict, schema.GroupVersionKind{}, metav1.FieldValidationStrict); err == nil || !strings.HasSuffix(err.Error(), ": strict decoding error: "+lines) {
		t.Errorf("a write is refused by %q", err)
	}
	if err := strictConfig(ctx, strict, metav1.FieldValidationStrict); err == nil || err.Error() != "error strict decoding patch: error converting YAML to JSON: "+lines {
		t.Errorf("an apply is refused by %q", err)
	}
}
