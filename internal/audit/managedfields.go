package audit

import (
	"encoding/json"
)

// withoutManagedFields removes the managed fields from the JSON of an object, a list or a table. Other data is returned
// unchanged.
func withoutManagedFields(data []byte) []byte {
	var doc map[string]json.RawMessage
	if json.Unmarshal(data, &doc) != nil {
		return data
	}
	changed := dropFrom(doc)
	changed = eachIn(doc, "items", dropFrom) || changed
	changed = eachIn(doc, "rows", func(row map[string]json.RawMessage) bool {
		return within(row, "object", dropFrom)
	}) || changed
	if !changed {
		return data
	}
	out, err := json.Marshal(doc)
	if err != nil {
		return data
	}
	return out
}

// dropFrom removes the managed fields from an object and reports whether it had any.
func dropFrom(obj map[string]json.RawMessage) bool {
	return within(obj, "metadata", func(meta map[string]json.RawMessage) bool {
		_, has := meta["managedFields"]
		delete(meta, "managedFields")
		return has
	})
}

// within applies change to an object that is a field of another, and reports whether anything changed.
func within(obj map[string]json.RawMessage, name string, change func(map[string]json.RawMessage) bool) bool {
	var inner map[string]json.RawMessage
	if json.Unmarshal(obj[name], &inner) != nil || !change(inner) {
		return false
	}
	out, err := json.Marshal(inner)
	if err != nil {
		return false
	}
	obj[name] = out
	return true
}

// eachIn applies change to the objects of a list that is a field of another object, and reports whether anything
// changed.
func eachIn(obj map[string]json.RawMessage, name string, change func(map[string]json.RawMessage) bool) bool {
	var list []map[string]json.RawMessage
	if json.Unmarshal(obj[name], &list) != nil {
		return false
	}
	changed := false
	for _, inner := range list {
		changed = change(inner) || changed
	}
	if !changed {
		return false
	}
	out, err := json.Marshal(list)
	if err != nil {
		return false
	}
	obj[name] = out
	return true
}
