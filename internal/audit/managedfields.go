package audit

import (
	"encoding/json"
)

// withoutManagedFields takes the managed fields out of the JSON of an object,
// a list or a table. What is no JSON object stays as it is.
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

// dropFrom takes the managed fields out of an object.
func dropFrom(obj map[string]json.RawMessage) bool {
	return within(obj, "metadata", func(meta map[string]json.RawMessage) bool {
		_, has := meta["managedFields"]
		delete(meta, "managedFields")
		return has
	})
}

// within changes an object that is a field of another; false: nothing changed.
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

// eachIn changes the objects of a list that is a field of another object.
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
