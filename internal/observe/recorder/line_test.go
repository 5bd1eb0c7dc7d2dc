package recorder

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// TestLinesAreEncodingJSONs compares lines of records in which any field may be empty with what encoding/json writes, so that a field
// that is added to a record is added to its line.
func TestLinesAreEncodingJSONs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var rec v1alpha1.Record
		fill(random, reflect.ValueOf(&rec).Elem())
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(stored(&rec)); err != nil {
			t.Fatal(err)
		}
		if got := append(line(nil).record(&rec), '\n'); !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("got\n%s, want\n%s", got, want.Bytes())
		}
	}
}

// fill sets about half of the fields of a value.
func fill(random *rand.Rand, v reflect.Value) {
	if random.IntN(2) == 0 {
		return
	}
	texts := []string{"a", "a&b", "<x>\"\n", "ü…\u2028", "&", "a<", ">a"}
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(random.Int64N(1<<32), random.Int64N(1e9))))
	case v.Kind() == reflect.String:
		v.SetString(texts[random.IntN(len(texts))])
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(random.Int64N(1 << 31))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(random, v.Elem())
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), random.IntN(3), 3))
		for n := range v.Len() {
			fill(random, v.Index(n))
		}
	case v.Kind() == reflect.Struct:
		for n := range v.NumField() {
			fill(random, v.Field(n))
		}
	}
}
