package exports

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// recordsPrefix is where records are in the log: by the UID of the provider's plane, the name of the export, and the UID of the
// consumer's plane.
const recordsPrefix = "/kanzen/exports/"

// record says that a plane has bound an export, and what the provider may see and do there.
type record struct {
	// Plane is the consumer's name, and Binding that of its binding.
	Plane   string `json:"plane"`
	Binding string `json:"binding"`
	// Resources are the kinds of the export, Claims what was granted of others.
	Resources []GroupResource `json:"resources,omitempty"`
	Claims    []grant         `json:"claims,omitempty"`
}

// grant is a claim that was accepted. Objects must match all selectors.
type grant struct {
	GroupResource
	Verbs     []string                `json:"verbs"`
	Selectors []*metav1.LabelSelector `json:"selectors,omitempty"`
}

// selector is what objects must match.
func (g *grant) selector() (labels.Selector, error) {
	all := labels.Everything()
	for _, s := range g.Selectors {
		one, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			return nil, err
		}
		terms, _ := one.Requirements()
		if one.Empty() {
			continue
		}
		if len(terms) == 0 {
			return one, nil // nothing matches
		}
		all = all.Add(terms...)
	}
	return all, nil
}

// granted returns what asked and accepted have in common; whole: it is all that was asked for.
func granted(asked, accepted []Claim) (grants []grant, whole bool) {
	whole = true
	for _, a := range asked {
		n := slices.IndexFunc(accepted, func(c Claim) bool { return c.GroupResource == a.GroupResource })
		if n < 0 {
			whole = false
			continue
		}
		g := grant{GroupResource: a.GroupResource}
		for _, verb := range a.Verbs {
			if slices.Contains(accepted[n].Verbs, verb) {
				g.Verbs = append(g.Verbs, verb)
			}
		}
		for _, s := range []*metav1.LabelSelector{a.LabelSelector, accepted[n].LabelSelector} {
			if s != nil && !slices.ContainsFunc(g.Selectors, func(o *metav1.LabelSelector) bool { return sameJSON(o, s) }) {
				g.Selectors = append(g.Selectors, s)
			}
		}
		narrower := accepted[n].LabelSelector != nil && !sameJSON(accepted[n].LabelSelector, a.LabelSelector)
		whole = whole && len(g.Verbs) == len(a.Verbs) && !narrower
		if len(g.Verbs) > 0 {
			grants = append(grants, g)
		}
	}
	return grants, whole
}

func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// shows returns which objects of a kind a list or watch has; ok is false if it has none. As in a cluster, who may list may see all that
// is listed, and who may watch too: the view is one for both, so it takes both rights.
func (r *record) shows(of GroupResource) (which labels.Selector, ok bool) {
	if slices.Contains(r.Resources, of) {
		return labels.Everything(), true
	}
	g := r.grant(of)
	if g == nil || !slices.Contains(g.Verbs, "list") || !slices.Contains(g.Verbs, "watch") {
		return nil, false
	}
	which, err := g.selector()
	return which, err == nil
}

// grant returns the claim of a kind; nil: there is none.
func (r *record) grant(of GroupResource) *grant {
	if n := slices.IndexFunc(r.Claims, func(g grant) bool { return g.GroupResource == of }); n >= 0 {
		return &r.Claims[n]
	}
	return nil
}

// recordsOf is the prefix of the records of an export.
func recordsOf(provider types.UID, export string) string {
	return recordsPrefix + string(provider) + "/" + export + "/"
}

// readRecords reads the records with a prefix as of a revision (0: the newest), by the keys below it.
func readRecords(ctx context.Context, db store.DB, prefix string, rev int64) (map[string]*record, error) {
	all := map[string]*record{}
	var failed error
	_, err := db.Range(ctx, kv.Range{Key: prefix, End: kv.PrefixEnd(prefix), Rev: rev}, func(k kv.KeyValue) bool {
		r := &record{}
		failed = json.Unmarshal(k.Value, r)
		all[strings.TrimPrefix(string(k.Key), prefix)] = r
		return failed == nil
	})
	if err == nil {
		err = failed
	}
	return all, err
}

// standing is a record as it was read, and while what it can be written.
type standing struct {
	key   string
	is    *record // nil: there is none
	value []byte
	while []kv.Condition
}

// readRecord reads one record, which can be written until somebody else does.
func readRecord(ctx context.Context, db store.DB, key string) (*standing, error) {
	s := &standing{key: key}
	at := int64(0)
	if _, err := db.Range(ctx, kv.Range{Key: key}, func(k kv.KeyValue) bool { s.value, at = k.Value, k.ModRevision; return false }); err != nil {
		return nil, err
	}
	s.while = []kv.Condition{{Key: key, Is: kv.ModRevision, N: at}}
	if s.value == nil {
		return s, nil
	}
	s.is = &record{}
	return s, json.Unmarshal(s.value, s.is)
}

// errChanged says that a record was not written because a condition does not hold.
var errChanged = errors.New("the binding, or where one of its planes lies, has changed meanwhile")

// put makes a record what it is to be. It writes only what changes something.
func (s *standing) put(ctx context.Context, db store.DB, r *record) error {
	value, err := json.Marshal(r)
	if err != nil || bytes.Equal(value, s.value) {
		return err
	}
	done, err := db.Commit(ctx, kv.Txn{If: s.while, Then: []kv.Op{{Key: s.key, Value: value}}})
	if err == nil && !done.Held {
		err = errChanged
	}
	return err
}

// removeRecord removes a record, if there is one and conditions hold.
func removeRecord(ctx context.Context, db store.DB, key string, while ...kv.Condition) error {
	a, err := db.Range(ctx, kv.Range{Key: key, CountOnly: true}, nil)
	if err != nil || a.Count == 0 {
		return err
	}
	_, err = db.Commit(ctx, kv.Txn{If: while, Then: []kv.Op{{Delete: true, Key: key}}})
	return err
}

// Bond is a binding that is in force.
type Bond struct {
	Provider, Consumer types.UID
	Export             string
	// Plane is the consumer's name, and Binding that of its binding.
	Plane, Binding string
}

// key is that of the record.
func (b *Bond) key() string { return recordsOf(b.Provider, b.Export) + string(b.Consumer) }

// InForce returns the bindings in a log that are in force of a plane, and to its exports.
func InForce(ctx context.Context, db store.DB, plane types.UID) (all []Bond, err error) {
	records, err := readRecords(ctx, db, recordsPrefix, 0)
	for key, r := range records {
		parts := strings.Split(key, "/")
		if len(parts) != 3 {
			continue
		}
		b := Bond{Provider: types.UID(parts[0]), Export: parts[1], Consumer: types.UID(parts[2]), Plane: r.Plane, Binding: r.Binding}
		if b.Provider == plane || b.Consumer == plane {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b Bond) int { return strings.Compare(a.Plane+"/"+a.Binding, b.Plane+"/"+b.Binding) })
	return all, err
}

// Forget removes the records of a plane that does not lie in a log any more, as a condition says.
func Forget(ctx context.Context, db store.DB, plane types.UID, gone kv.Condition) error {
	all, err := InForce(ctx, db, plane)
	for n := range all {
		if err := removeRecord(ctx, db, all[n].key(), gone); err != nil {
			return err
		}
	}
	return err
}
