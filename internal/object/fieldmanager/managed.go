package fieldmanager

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// identity is what tells the managers of an object from each other. One that applies is the same at all versions.
type identity struct {
	manager, version, subresource string
	applied                       bool
}

// managed is a manager of an object and its fields.
type managed struct {
	identity
	version string // of the fields
	fields  set
	time    *metav1.Time
	// encoded is what the fields are in the object, if that is how they are encoded.
	encoded *metav1.FieldsV1
}

// decode reads the managers of an object. The error says that they are invalid.
func (w *walker) decode(entries []metav1.ManagedFieldsEntry) ([]managed, error) {
	out := make([]managed, 0, len(entries)+1)
	for i := range entries {
		m, err := w.decodeEntry(&entries[i])
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(out, func(o managed) bool { return o.identity == m.identity })
		if at < 0 {
			out = append(out, m)
			continue
		}
		out[at] = m // of several the last counts
	}
	return out, nil
}

func (w *walker) decodeEntry(e *metav1.ManagedFieldsEntry) (m managed, err error) {
	switch {
	case e.Operation != metav1.ManagedFieldsOperationApply && e.Operation != metav1.ManagedFieldsOperationUpdate:
		return m, fmt.Errorf("operation %q", e.Operation)
	case e.APIVersion == "":
		return m, fmt.Errorf("no version")
	case e.FieldsType != "FieldsV1":
		return m, fmt.Errorf("type of fields %q", e.FieldsType)
	}
	w.odd = w.odd || !utf8.ValidString(e.Manager) || !utf8.ValidString(e.APIVersion) || !utf8.ValidString(e.Subresource)
	m = managed{identity: identity{manager: e.Manager, version: e.APIVersion, subresource: e.Subresource}, version: e.APIVersion, time: e.Time}
	if e.Operation == metav1.ManagedFieldsOperationApply {
		m.applied, m.identity.version = true, ""
	}
	if e.FieldsV1 == nil {
		return m, nil
	}
	d, err := w.decodeSet(e.FieldsV1.GetRawBytes())
	m.fields = d.fields
	w.odd = w.odd || d.odd
	if d.same {
		m.encoded = e.FieldsV1
	}
	return m, err
}

// set gives the manager other fields.
func (m *managed) set(s set) {
	if !s.same(m.fields) {
		m.fields, m.encoded = s, nil
	}
}

// encode returns managers as an object has them.
func (w *walker) encode(managers []managed) []metav1.ManagedFieldsEntry {
	if len(managers) == 0 {
		return nil
	}
	slices.SortFunc(managers, inOrder)
	out := make([]metav1.ManagedFieldsEntry, len(managers))
	for i := range managers {
		m, e := &managers[i], &out[i]
		e.Manager, e.Operation, e.APIVersion = m.manager, m.operation(), m.version
		e.Time, e.FieldsType, e.FieldsV1, e.Subresource = m.time, "FieldsV1", m.encoded, m.subresource
		if e.FieldsV1 == nil {
			e.FieldsV1 = &metav1.FieldsV1{}
			w.json = appendSet(w.json[:0], m.fields, false)
			e.FieldsV1.SetRawBytes(w.json)
		}
	}
	return out
}

func (id identity) operation() metav1.ManagedFieldsOperationType {
	if id.applied {
		return metav1.ManagedFieldsOperationApply
	}
	return metav1.ManagedFieldsOperationUpdate
}

// inOrder is the order of an object's managers.
func inOrder(a, b managed) int {
	return cmp.Or(
		strings.Compare(string(a.operation()), string(b.operation())),
		cmp.Compare(seconds(a.time), seconds(b.time)),
		strings.Compare(a.manager, b.manager),
		strings.Compare(a.version, b.version),
		strings.Compare(a.subresource, b.subresource),
	)
}

func seconds(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}

// maxUpdaters is how many managers that update an object has, and ancient what the older ones then become.
const (
	maxUpdaters = 10
	ancient     = "ancient-changes"
)

// capUpdaters merges the oldest of too many managers that update, one for each version.
func (ms managers) capUpdaters() managers {
	var updaters []managed
	for _, m := range ms {
		if !m.applied {
			updaters = append(updaters, m)
		}
	}
	if len(updaters) <= maxUpdaters {
		return ms
	}
	slices.SortFunc(updaters, func(a, b managed) int {
		return cmp.Or(cmp.Compare(seconds(a.time), seconds(b.time)), strings.Compare(a.identity.json(), b.identity.json()))
	})
	left := len(updaters)
	first := map[string]identity{}
	for _, m := range updaters {
		if left <= maxUpdaters {
			break
		}
		oldest, ok := first[m.version]
		if !ok {
			first[m.version] = m.identity
			continue
		}
		left--
		bucket := managed{identity: identity{manager: ancient, version: m.version}, version: m.version, time: m.time}
		merged := ms.find(bucket.identity)
		if merged == nil {
			merged = ms.find(oldest)
			bucket.fields = union(m.fields, merged.fields)
			ms = ms.drop(oldest)
		} else {
			bucket.fields = union(m.fields, merged.fields)
		}
		// The library loses what is merged into itself.
		ms = append(ms.drop(bucket.identity), bucket).drop(m.identity)
	}
	return ms
}

// json is what the library calls a manager.
func (id identity) json() string {
	e := metav1.ManagedFieldsEntry{Manager: id.manager, Operation: id.operation(), APIVersion: id.version, Subresource: id.subresource}
	b, err := json.Marshal(&e)
	if err != nil {
		panic(err) // it has texts only
	}
	return string(b)
}

// managers are the managers of an object.
type managers []managed

func (ms managers) find(id identity) *managed {
	for i := range ms {
		if ms[i].identity == id {
			return &ms[i]
		}
	}
	return nil
}

func (ms managers) drop(id identity) managers {
	return slices.DeleteFunc(ms, func(m managed) bool { return m.identity == id })
}
