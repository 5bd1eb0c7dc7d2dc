package chaos

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// The checks say by name what is wrong, and nothing if all is well. They have no cluster: TestChecks gives them what is damaged.

// versions are the identities and revisions of objects, by name.
func versions(list []*unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	for _, o := range list {
		out[id(o)] = string(o.GetUID()) + " " + o.GetResourceVersion()
	}
	return out
}

// unequal compares two sets of objects of a kind.
func unequal(kind, one, other string, a, b map[string]string) (wrong []string) {
	names := maps.Clone(a)
	maps.Copy(names, b)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		switch va, vb := a[name], b[name]; {
		case va == vb:
		case vb == "":
			wrong = append(wrong, fmt.Sprintf("%s %s: %s has it at %s, %s has not", kind, name, one, va, other))
		case va == "":
			wrong = append(wrong, fmt.Sprintf("%s %s: %s has it at %s, %s has not", kind, name, other, vb, one))
		default:
			wrong = append(wrong, fmt.Sprintf("%s %s: %s has it at %s, %s at %s", kind, name, one, va, other, vb))
		}
	}
	return wrong
}

// unstored compares what a server lists with the keys of etcd and the revisions of their last changes. own says which keys are the server's
// bookkeeping, which no kind lists.
func unstored(server string, listed objects, keys map[string]int64, own func(key string) bool) (wrong []string) {
	at := map[int64][]string{} // the keys of a revision
	for key, revision := range keys {
		at[revision] = append(at[revision], key)
	}
	used := map[string]bool{}
	for _, kind := range slices.Sorted(maps.Keys(listed)) {
		for _, o := range listed[kind] {
			revision, _ := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
			found := slices.IndexFunc(at[revision], func(key string) bool { return strings.HasSuffix(key, "/"+id(o)) })
			if found < 0 {
				wrong = append(wrong, fmt.Sprintf("%s %s: %s lists it at %d, where etcd has no such key", kind, id(o), server, revision))
				continue
			}
			used[at[revision][found]] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !used[key] && !own(key) {
			wrong = append(wrong, fmt.Sprintf("%s: etcd has it at %d, and %s lists no such object", key, keys[key], server))
		}
	}
	return wrong
}

// orphans are objects whose owner is not there, or which should be gone.
func orphans(all objects) (wrong []string) {
	there := map[types.UID]bool{}
	for _, list := range all {
		for _, o := range list {
			there[o.GetUID()] = true
		}
	}
	spaces := versions(all["namespaces"])
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		for _, o := range all[kind] {
			for _, owner := range o.GetOwnerReferences() {
				if !there[owner.UID] {
					wrong = append(wrong, fmt.Sprintf("%s %s: its owner %s %s (%s) is not there", kind, id(o), owner.Kind, owner.Name, owner.UID))
				}
			}
			if at := o.GetDeletionTimestamp(); at != nil {
				wrong = append(wrong, fmt.Sprintf("%s %s: was deleted at %s and is there, for %v", kind, id(o), at.UTC().Format(time.TimeOnly), o.GetFinalizers()))
			}
			if o.GetNamespace() != "" && spaces[o.GetNamespace()] == "" {
				wrong = append(wrong, fmt.Sprintf("%s %s: its namespace is not there", kind, id(o)))
			}
		}
	}
	for _, n := range all["namespaces"] {
		if phase, _, _ := unstructured.NestedString(n.Object, "status", "phase"); phase != "Active" {
			wrong = append(wrong, fmt.Sprintf("namespaces %s: is %s", n.GetName(), phase))
		}
	}
	return wrong
}

// as reads objects of a built-in kind.
func as[T any](all objects, kind string) (out []T, wrong []string) {
	for _, o := range all[kind] {
		var v T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &v); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s %s: %v", kind, id(o), err))
			continue
		}
		out = append(out, v)
	}
	return out, wrong
}

// misplaced are pods that do not run on a node that is there, and nodes that are not ready.
func misplaced(all objects) []string {
	pods, wrong := as[corev1.Pod](all, "pods")
	nodes, more := as[corev1.Node](all, "nodes")
	wrong = append(wrong, more...)
	there := map[string]bool{}
	for _, n := range nodes {
		there[n.Name] = true
		if !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			wrong = append(wrong, fmt.Sprintf("nodes %s: is not ready", n.Name))
		}
	}
	for _, p := range pods {
		switch name := p.Namespace + "/" + p.Name; {
		case p.Spec.NodeName == "":
			wrong = append(wrong, fmt.Sprintf("pods %s: has no node", name))
		case !there[p.Spec.NodeName]:
			wrong = append(wrong, fmt.Sprintf("pods %s: its node %s is not there", name, p.Spec.NodeName))
		case !ready(p):
			wrong = append(wrong, fmt.Sprintf("pods %s: is %s, and not ready", name, p.Status.Phase))
		}
	}
	return wrong
}

func ready(p corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

// unserved are services whose EndpointSlices do not have exactly the ready pods that they select.
func unserved(all objects) []string {
	services, wrong := as[corev1.Service](all, "services")
	pods, more := as[corev1.Pod](all, "pods")
	wrong = append(wrong, more...)
	slicesOf, more := as[discoveryv1.EndpointSlice](all, "discovery.k8s.io/endpointslices")
	wrong = append(wrong, more...)
	for _, s := range services {
		if len(s.Spec.Selector) == 0 {
			continue
		}
		want, has := map[string]string{}, map[string]string{}
		for _, p := range pods {
			if p.Namespace == s.Namespace && ready(p) && selects(s.Spec.Selector, p.Labels) {
				want[p.Name] = string(p.UID)
			}
		}
		for _, l := range slicesOf {
			if l.Namespace != s.Namespace || l.Labels[discoveryv1.LabelServiceName] != s.Name {
				continue
			}
			for _, e := range l.Endpoints {
				if e.TargetRef != nil && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
					has[e.TargetRef.Name] = string(e.TargetRef.UID)
				}
			}
		}
		wrong = append(wrong, unequal("services "+s.Namespace+"/"+s.Name+": endpoint", "the pods' list", "the slices", want, has)...)
	}
	return wrong
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// miscounted are quotas whose use is not what is there.
func miscounted(all objects) []string {
	quotas, wrong := as[corev1.ResourceQuota](all, "resourcequotas")
	for _, q := range quotas {
		for name, used := range q.Status.Used {
			kind := strings.TrimPrefix(string(name), "count/")
			if resource, group, ok := strings.Cut(kind, "."); ok {
				kind = group + "/" + resource
			}
			list, counted := all[kind]
			if !counted {
				wrong = append(wrong, fmt.Sprintf("resourcequotas %s/%s: %s is of no kind", q.Namespace, q.Name, name))
				continue
			}
			n := int64(0)
			for _, o := range list {
				if o.GetNamespace() == q.Namespace {
					n++
				}
			}
			if used.Value() != n {
				wrong = append(wrong, fmt.Sprintf("resourcequotas %s/%s: %s says %d are used, there are %d", q.Namespace, q.Name, name, used.Value(), n))
			}
		}
		if len(q.Status.Used) != len(q.Spec.Hard) {
			wrong = append(wrong, fmt.Sprintf("resourcequotas %s/%s: %d limits, %d uses", q.Namespace, q.Name, len(q.Spec.Hard), len(q.Status.Used)))
		}
	}
	return wrong
}

// stale are leases that nobody renews, and who has none: nodes, servers, and programs of which one works at a time.
func stale(all objects, now time.Time, servers int, leaders []string) (wrong []string) {
	has, identities := map[string]bool{}, 0
	for _, o := range all["coordination.k8s.io/leases"] {
		has[id(o)] = true
		if o.GetLabels()["apiserver.kubernetes.io/identity"] != "" {
			identities++
		}
		text, _, _ := unstructured.NestedString(o.Object, "spec", "renewTime")
		at, err := time.Parse(time.RFC3339Nano, text)
		lasts := number(o.Object, "spec", "leaseDurationSeconds")
		if limit := 3 * time.Duration(lasts) * time.Second; err != nil || now.Sub(at) > limit {
			wrong = append(wrong, fmt.Sprintf("coordination.k8s.io/leases %s: was renewed at %q, and is for %d seconds", id(o), text, lasts))
		}
	}
	for _, n := range all["nodes"] {
		leaders = append(leaders, "kube-node-lease/"+n.GetName())
	}
	for _, name := range leaders {
		if !has[name] {
			wrong = append(wrong, fmt.Sprintf("coordination.k8s.io/leases %s: is not there", name))
		}
	}
	if identities != servers {
		wrong = append(wrong, fmt.Sprintf("coordination.k8s.io/leases: %d of servers, there are %d servers", identities, servers))
	}
	return wrong
}

// number is an integer in an object, however it was read.
func number(object map[string]any, path ...string) int64 {
	v, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	switch n := v.(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	case json.Number:
		i, _ := n.Int64()
		return i
	}
	return 0
}

// unfinished are Sites for which the operator has not done its work: each is ready as it is now, and has its page.
func unfinished(all objects) (wrong []string) {
	pages := map[string]string{}
	for _, m := range all["configmaps"] {
		pages[id(m)], _, _ = unstructured.NestedString(m.Object, "data", "index.html")
	}
	for _, site := range all["web.example.com/sites"] {
		title, _, _ := unstructured.NestedString(site.Object, "spec", "title")
		if want := "<h1>" + title + "</h1>"; pages[id(site)] != want {
			wrong = append(wrong, fmt.Sprintf("web.example.com/sites %s: its page is %q, it should be %q", id(site), pages[id(site)], want))
		}
		list, _, _ := unstructured.NestedSlice(site.Object, "status", "conditions")
		if !slices.ContainsFunc(list, func(c any) bool { m, _ := c.(map[string]any); return m["type"] == "Ready" && m["status"] == "True" }) {
			wrong = append(wrong, fmt.Sprintf("web.example.com/sites %s: is not ready", id(site)))
		}
	}
	return wrong
}

// judgeState is what is wrong with a cluster at rest.
func judgeState(all objects, now time.Time, servers int, leaders []string) (wrong []string) {
	for _, found := range [][]string{orphans(all), misplaced(all), unserved(all), miscounted(all), stale(all, now, servers, leaders), unfinished(all)} {
		wrong = append(wrong, found...)
	}
	return wrong
}
