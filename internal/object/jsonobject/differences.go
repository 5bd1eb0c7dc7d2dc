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
			if !differences(Below(path, key), x[key], y[key], told) {
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

// Below is the path of a field in what a path leads to.
func Below(path, field string) string {
	if path == "" {
		return fieldName(field)
	}
	return path + "." + fieldName(field)
}

// LeavesAt calls told with the path of each value that has no fields and no items, in the order of fields; path is that of the whole.
func LeavesAt(path string, v any, told func(path string, v any)) {
	switch x := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(x)) {
			LeavesAt(Below(path, key), x[key], told)
		}
		if len(x) > 0 {
			return
		}
	case []any:
		for n, item := range x {
			LeavesAt(path+"["+strconv.Itoa(n)+"]", item, told)
		}
		if len(x) > 0 {
			return
		}
	}
	told(path, v)
}
