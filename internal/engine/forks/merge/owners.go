package merge

import (
	"bytes"
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// manager is who manages fields: what distinguishes the entries of metadata.managedFields.
type manager struct {
	name, version, subresource string
	operation                  metav1.ManagedFieldsOperationType
}

// ownership is metadata.managedFields, read.
type ownership struct {
	sets  map[manager]*fieldpath.Set
	times map[manager]*metav1.Time
}

// ownershipOf reads the managers of an object. What cannot be read is left out.
func ownershipOf(entries []metav1.ManagedFieldsEntry) ownership {
	out := ownership{map[manager]*fieldpath.Set{}, map[manager]*metav1.Time{}}
	for n := range entries {
		e := &entries[n]
		set := &fieldpath.Set{}
		if e.FieldsV1 == nil || set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())) != nil {
			continue
		}
		who := manager{e.Manager, e.APIVersion, e.Subresource, e.Operation}
		out.sets[who], out.times[who] = set, e.Time
	}
	return out
}

// entries is metadata.managedFields.
func (o ownership) entries() (out []metav1.ManagedFieldsEntry, err error) {
	for who, set := range o.sets {
		if set.Empty() {
			continue
		}
		raw, err := set.ToJSON()
		if err != nil {
			return nil, err
		}
		out = append(out, metav1.ManagedFieldsEntry{Manager: who.name, Operation: who.operation, APIVersion: who.version, Subresource: who.subresource,
			Time: o.times[who], FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw))})
	}
	slices.SortFunc(out, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Or(cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Subresource, b.Subresource))
	})
	return out, nil
}

// statusOnly says that a manager writes the status of a kind that has that apart. Statuses are not merged.
func (m manager) statusOnly() bool { return m.subresource == "status" }

// in returns a func that says whether somebody owns a field, or one below it. Where that cannot be told, everything is owned: nobody
// is recorded at all, or somebody who wrote another version, which has other fields.
func (o ownership) in(version string) func(fieldpath.Path) bool {
	everyone := fieldpath.NewSet()
	for who, set := range o.sets {
		if who.statusOnly() {
			continue
		}
		if who.version != version {
			return func(fieldpath.Path) bool { return true }
		}
		everyone = everyone.Union(set)
	}
	if everyone.Empty() {
		return func(fieldpath.Path) bool { return true }
	}
	return func(at fieldpath.Path) bool { return owns(everyone, at) }
}

// owns says whether a set has a field, or one below it.
func owns(set *fieldpath.Set, at fieldpath.Path) bool {
	for n, element := range at {
		below, further := set.Children.Get(element)
		if n == len(at)-1 {
			return further || set.Members.Has(element)
		}
		if !further {
			return false
		}
		set = below
	}
	return true
}

// of are the managers that own a field, sorted.
func (o ownership) of(at fieldpath.Path) (names []string) {
	for who, set := range o.sets {
		if owns(set, at) {
			names = append(names, who.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// mergeOwners merges managers: what one side has taken up or given up since base is so afterwards. Fields at which our value was
// written over theirs belong to our managers alone. A manager of statuses is as on the server.
func mergeOwners(base, ours, theirs ownership, overwritten *fieldpath.Set) ownership {
	out := ownership{map[manager]*fieldpath.Set{}, map[manager]*metav1.Time{}}
	for who, set := range theirs.sets {
		out.sets[who], out.times[who] = set.RecursiveDifference(overwritten), theirs.times[who]
	}
	for who := range keysOfBoth(base.sets, ours.sets) {
		if who.statusOnly() {
			continue
		}
		b, o, merged := setOf(base, who), setOf(ours, who), setOf(out, who)
		taken := o.Difference(b).Union(o.Difference(o.RecursiveDifference(overwritten)))
		merged = merged.Difference(b.Difference(o)).Union(taken)
		if !merged.Equals(setOf(theirs, who)) {
			out.times[who] = cmp.Or(ours.times[who], theirs.times[who])
		}
		out.sets[who] = merged
	}
	return out
}

func keysOfBoth(a, b map[manager]*fieldpath.Set) map[manager]bool {
	out := map[manager]bool{}
	for who := range a {
		out[who] = true
	}
	for who := range b {
		out[who] = true
	}
	return out
}

func setOf(o ownership, who manager) *fieldpath.Set {
	if set := o.sets[who]; set != nil {
		return set
	}
	return fieldpath.NewSet()
}

// alike says whether two sets of managers are the same but for their times.
func (o ownership) alike(other ownership) bool {
	for who := range keysOfBoth(o.sets, other.sets) {
		if !setOf(o, who).Equals(setOf(other, who)) {
			return false
		}
	}
	return true
}
