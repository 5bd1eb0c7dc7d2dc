package schema

import (
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// decode reads JSON as servers do: whole numbers are int64.
func decode(b []byte) (v any) {
	if err := utiljson.Unmarshal(b, &v); err != nil {
		panic(err)
	}
	return v
}

// normal gives numbers the types that decoded ones have.
func normal(v any) any { return decode(encode(v)) }

func cloneObject(v map[string]any) map[string]any { return clone(v).(map[string]any) }
