package jsonobject

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// fieldName writes the name of a field so that it is one word of visible characters, whoever has chosen it.
func fieldName(key string) string {
	if key == "" || strings.ContainsFunc(key, func(c rune) bool { return c == ' ' || c == '"' || !unicode.IsPrint(c) }) {
		return strconv.Quote(key)
	}
	return key
}

// Differences calls told with the path of each field in which two JSON values differ, and what it is in both (nil: it is not there), until it
// returns false. Lists of other lengths are one difference.
func Differences(a, b any, told func(path string, a, b any) bool) { differences("", a, b, told) }

func differences(path string, a, b any, told func(path string, a, b any) bool) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			return told(path, a, b)
		}
		keys := slices.Collect(maps.Keys(x))
		for key := range y {
			if _, ok := x[key]; !ok {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			below := fieldName(key)
			if path != "" {
				below = path + "." + below
			}
			if !differences(below, x[key], y[key], told) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return told(path, a, b)
		}
		for n := range x {
			if !differences(fmt.Sprintf("%s[%d]", path, n), x[n], y[n], told) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b) || told(path, a, b)
}
