package goldens

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
)

// dims are the compared parts of an answer.
var dims = []string{"code", "reason", "causes", "object", "table", "managed", "warnings", "type", "words"}

// verdict says for every part whether it was to be compared and whether it is equal.
func verdict(want, got Expect) map[string]bool {
	v := map[string]bool{"code": want.Code == got.Code}
	v["reason"] = v["code"] && want.Reason == got.Reason
	if len(want.Causes) > 0 || len(got.Causes) > 0 && want.Code >= 400 {
		v["causes"] = reflect.DeepEqual(fields(want.Causes), fields(got.Causes))
	}
	if want.Object != nil || want.Events != nil {
		v["object"] = same(want.Object, got.Object) && same(want.Events, got.Events)
	}
	if want.Table != nil {
		v["table"] = same(want.Table, got.Table)
	}
	if want.Managed != nil {
		v["managed"] = same(want.Managed, got.Managed)
	}
	v["warnings"] = want.Warnings == got.Warnings
	v["type"] = want.Type == got.Type
	if want.Words != "" {
		v["words"] = want.Words == got.Words
	}
	return v
}

func fields(cs []Cause) map[string]bool {
	m := map[string]bool{}
	for _, c := range cs {
		m[c.Field] = true
	}
	return m
}

func same(a, b any) bool { return reflect.DeepEqual(plain(a), plain(b)) }

func plain(v any) any {
	b, _ := json.Marshal(v)
	var out any
	_ = json.Unmarshal(b, &out)
	return out
}

func short(v any) string {
	b, _ := json.Marshal(v)
	if len(b) > 300 {
		b = append(b[:300], "..."...)
	}
	return string(b)
}

// diff prints the paths at which two JSON values differ.
func diff(out io.Writer, path string, want, got any) {
	if reflect.DeepEqual(want, got) {
		return
	}
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			all := map[string]any{}
			for k := range w {
				all[k] = nil
			}
			for k := range g {
				all[k] = nil
			}
			for _, k := range slices.Sorted(maps.Keys(all)) {
				diff(out, path+"."+k, w[k], g[k])
			}
			return
		}
	case []any:
		if g, ok := got.([]any); ok && len(g) == len(w) {
			for i := range w {
				diff(out, fmt.Sprintf("%s[%d]", path, i), w[i], g[i])
			}
			return
		}
	}
	fmt.Fprintf(out, "%s: want %s got %s\n", path, short(want), short(got))
}
