package jsonobject

import (
	"encoding/json"
	"fmt"
	"testing"
)

func TestDifferences(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{`{"a":{"b":1}}`, `{"a":{"b":1}}`, ""},
		{`{"a":{"b":1,"c":2}}`, `{"a":{"b":3,"d":4}}`, "a.b 1 3; a.c 2 <nil>; a.d <nil> 4; "},
		{`{"l":[1,{"x":2}]}`, `{"l":[1,{"x":3}]}`, "l[1].x 2 3; "},
		{`{"l":[1]}`, `{"l":[1,2]}`, "l [1] [1 2]; "},
		{`{"a":{}}`, `{"a":[]}`, "a map[] []; "},
		{`{"a\nb":1}`, `{}`, "\"a\\nb\" 1 <nil>; "},
	} {
		var a, b any
		if json.Unmarshal([]byte(c.a), &a) != nil || json.Unmarshal([]byte(c.b), &b) != nil {
			t.Fatal(c)
		}
		got := ""
		Differences(a, b, func(path string, a, b any) bool { got += fmt.Sprintf("%s %v %v; ", path, a, b); return true })
		if got != c.want {
			t.Errorf("%s and %s: %q, want %q", c.a, c.b, got, c.want)
		}
	}
}
