package findings

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/observe/recorder"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

const (
	// longDeletion is how long any deletion may take.
	longDeletion = 5 * time.Minute
	// mostHolders bounds the objects that are named of a stuck namespace.
	mostHolders = 10
)

// deletions looks at objects whose deletion does not end.
func (l *look) deletions() {
	stuck := map[string]bool{}
	for _, obj := range l.scan(schema.GroupResource{Resource: "namespaces"}, terminating) {
		if ns, ok := obj.(*corev1.Namespace); ok && ns.DeletionTimestamp != nil {
			stuck[ns.Name] = true
			if !l.enough("NamespaceStuck") {
				l.namespace(ns)
			}
		}
	}
	for _, o := range oldest(l.tally.deleting) {
		since := l.tally.deleting[o]
		if l.time.Sub(since) < patience || l.enough("DeletionStuck") {
			break
		}
		if stuck[o.Namespace] {
			continue
		}
		ep, i, gone := l.item(o)
		if gone {
			delete(l.tally.deleting, o)
			continue
		}
		if i == nil || o.Resource == "namespaces" || o.Resource == "customresourcedefinitions" {
			continue
		}
		switch m := metaOf(l.ctx, ep, i); {
		case m == nil:
		case m.DeletionTimestamp == nil:
			delete(l.tally.deleting, o) // another one has its name now
		case len(m.Finalizers) > 0:
			l.object(o, m, l.time.Sub(since))
		}
	}
}

// oldest returns what waits, in the order in which it began to: what waits longest is looked at first, and so is told of at each look.
func oldest(all map[v1alpha1.ObjectReference]time.Time) []v1alpha1.ObjectReference {
	return slices.SortedFunc(maps.Keys(all), func(a, b v1alpha1.ObjectReference) int {
		return cmp.Or(all[a].Compare(all[b]), strings.Compare(subjectOf(a), subjectOf(b)))
	})
}

// terminating says that the stored namespace may be terminating: its phase is a text in it, however it is encoded.
func terminating(i *store.Item) bool {
	return bytes.Contains(i.Value(), []byte(corev1.NamespaceTerminating))
}

// object looks at an object that waits for its finalizers.
func (l *look) object(o v1alpha1.ObjectReference, m *metav1.ObjectMeta, age time.Duration) {
	facts, lives := l.holders(o, m)
	if lives && age < patienceWithLiving {
		return
	}
	f := l.about("DeletionStuck", v1alpha1.SeverityWarning, o, "%s is not deleted: it has the finalizer %s", l.called(o), m.Finalizers[0])
	f.Since.Time = m.DeletionTimestamp.Time
	f.Impact = "it waits, and so does what depends on it"
	f.Cause = "nobody seems to be there who removes the finalizer"
	if lives {
		f.Cause = "who set the finalizer runs, but does not remove it"
	}
	f.facts = append(f.facts, facts...)
	f.run("kanzen why %s", argumentOf(o))
	f.run("%s  # if what the finalizer protects is gone", withoutFinalizers(o))
}

func withoutFinalizers(o v1alpha1.ObjectReference) words {
	return words(command(`kubectl patch %s --type=merge -p '{"metadata":{"finalizers":null}}'`, argumentOf(o)))
}

// holders says for each finalizer of an object who set it, and whether that one lives, as all of them must for lives.
func (l *look) holders(o v1alpha1.ObjectReference, m *metav1.ObjectMeta) (facts []told, lives bool) {
	lives = true
	for _, name := range m.Finalizers {
		text := fmt.Sprintf("%s has the finalizer %s", l.called(o), name)
		if who, program, at := l.setter(o, m, name); builtin(name) {
			text += ", which a controller of Kubernetes removes"
		} else if who == "" {
			text, lives = text+"; it is not known who set it", false
		} else {
			how, alive := l.life(program)
			text += ", set by " + who
			if !at.IsZero() {
				text += " at " + at.UTC().Format(time.RFC3339)
			}
			text, lives = text+", "+how, lives && alive
		}
		facts = append(facts, told{text, &o})
	}
	return facts, lives
}

// builtin says that a finalizer is one of Kubernetes itself.
func builtin(finalizer string) bool {
	domain, _, qualified := strings.Cut(finalizer, "/")
	return !qualified || domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io")
}

// Setter names who set a finalizer, and when that one wrote last, as far as field management knows.
func Setter(m *metav1.ObjectMeta, finalizer string) (manager string, at time.Time) {
	for _, f := range m.ManagedFields {
		if f.FieldsV1 != nil && strings.Contains(f.FieldsV1.GetRawString(), `"v:\"`+finalizer+`\""`) {
			if f.Time != nil {
				at = f.Time.Time
			}
			return f.Manager, at
		}
	}
	return "", at
}

// setter says who set a finalizer, with which program, and when: as field management knows, and else the flight recorder.
func (l *look) setter(o v1alpha1.ObjectReference, m *metav1.ObjectMeta, finalizer string) (who, program string, at time.Time) {
	if manager, at := Setter(m, finalizer); manager != "" {
		return manager, manager, at
	}
	entries, _ := l.Recorder.History(o)
	for _, e := range slices.Backward(entries) {
		set := slices.ContainsFunc(e.Fields, func(f v1alpha1.FieldChange) bool { return strings.HasPrefix(f.Path, "metadata.finalizers") })
		if e.Code < 400 && (set && e.Operation == request.ChangeUpdated || e.Operation == request.ChangeCreated) {
			program, _, _ = strings.Cut(recorder.Program(e.UserAgent), "/")
			return recorder.Writer(&e), program, e.Last.Time
		}
	}
	return "", "", at
}

// life says whether a field manager lives, by its watches and requests at this server. One that only asks from time to time may be
// quiet for twice as long as it was before.
func (l *look) life(manager string) (text string, lives bool) {
	if manager == "kubectl" || strings.HasPrefix(manager, "kubectl-") {
		return "by hand, so nothing removes it by itself", false
	}
	for _, w := range l.Recorder.Watches() {
		if name, _, _ := strings.Cut(recorder.Program(w.UserAgent), "/"); name == manager {
			return "which watches " + resource(w.Group, w.Resource) + " now", true
		}
	}
	p := l.tally.seen[manager]
	if p == nil {
		return "which watches nothing and has sent no request lately: it does not seem to run", false
	}
	ago := l.time.Sub(p.last)
	text = fmt.Sprintf("which watches nothing; its last request was %s ago", short(ago))
	if ago < max(patience, 2*p.gap) {
		return text, true
	}
	return text + ": it does not seem to run", false
}

// namespace looks at a namespace that is being deleted.
func (l *look) namespace(ns *corev1.Namespace) {
	age := l.time.Sub(ns.DeletionTimestamp.Time)
	if age < patience {
		return
	}
	o := v1alpha1.ObjectReference{Resource: "namespaces", Namespace: ns.Name, Name: ns.Name}
	var facts []told
	var holding []v1alpha1.ObjectReference
	lives := true
	add := func(o v1alpha1.ObjectReference, m *metav1.ObjectMeta) {
		more, alive := l.holders(o, m)
		facts, lives, holding = append(facts, more...), lives && alive, append(holding, o)
	}
	if len(ns.Finalizers) > 0 {
		add(o, &ns.ObjectMeta)
	}
	cause, failed := "", false
	for _, c := range ns.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case corev1.NamespaceContentRemaining:
			for _, gr := range remaining(c.Message) {
				l.held(gr, ns.Name, mostHolders-len(holding), add)
			}
		case corev1.NamespaceFinalizersRemaining:
		default:
			cause, failed = c.Message, true
		}
	}
	waits := len(holding) > 0
	switch {
	case failed:
	case len(ns.Status.Conditions) == 0 && !waits:
		cause = "no namespace controller works on it: none is in this server, and no kube-controller-manager answers"
	case waits && !lives:
		cause = "objects in it have finalizers, and nobody seems to be there who removes them"
	case waits && age >= patienceWithLiving:
		cause = "objects in it have finalizers that their controllers do not remove"
	case age >= longDeletion:
		cause = "its content is not gone"
	default:
		return
	}
	f := l.about("NamespaceStuck", v1alpha1.SeverityWarning, o, "namespace %s is not deleted", ns.Name)
	f.Since.Time = ns.DeletionTimestamp.Time
	f.Impact, f.Cause, f.facts = "nothing new can be made in it, and its name cannot be used again", cause, facts
	for _, c := range ns.Status.Conditions {
		if c.Status == corev1.ConditionTrue && c.Message != cause {
			f.saw("%s", c.Message)
		}
	}
	f.run("kanzen why %s", argumentOf(o))
	for _, h := range holding {
		f.advice = append(f.advice, told{string(withoutFinalizers(h)) + "  # if what the finalizer protects is gone", &h})
	}
}

// remaining returns the resources that a condition names: "configmaps. has 1 resource instances, gadgets.example.com has 2 ...".
func remaining(message string) (out []schema.GroupResource) {
	_, list, _ := strings.Cut(message, ": ")
	for part := range strings.SplitSeq(list, ", ") {
		name, _, _ := strings.Cut(part, " ")
		if plural, group, ok := strings.Cut(name, "."); ok {
			out = append(out, schema.GroupResource{Group: group, Resource: plural})
		}
	}
	return out
}

// held calls add with objects of a kind in a namespace that wait for their finalizers.
func (l *look) held(gr schema.GroupResource, namespace string, most int, add func(v1alpha1.ObjectReference, *metav1.ObjectMeta)) {
	ep, err := l.Objects.Endpoint(gr)
	if err != nil || ep.View() == nil || most <= 0 {
		return
	}
	s, err := ep.View().Snapshot(l.ctx) // who deletes the namespace has loaded it
	if err != nil {
		return
	}
	looked := 0
	_ = s.Ascend(l.ctx, store.Range{Prefix: namespace + "/"}, func(i *store.Item) bool {
		if m := metaOf(l.ctx, ep, i); m != nil && m.DeletionTimestamp != nil && len(m.Finalizers) > 0 {
			add(v1alpha1.ObjectReference{Group: gr.Group, Resource: gr.Resource, Namespace: namespace, Name: m.Name}, m)
			most--
		}
		looked++
		return most > 0 && looked < mostDecoded
	})
}
