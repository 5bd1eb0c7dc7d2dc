package matrix

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// object is one that a server has stored.
type object struct {
	key     string // in the state
	path    string // to it
	list    string // to its collection
	raw     map[string]any
	bytes   string // as it was listed
	plain   string // without what differs by chance, and without
	managed string // managedFields
	status  bool   // there is a status to be written apart
}

// state is what a server has stored, by group, resource, namespace and name.
type state map[string]*object

// listed are the routes by which everything stored is read once.
func listed(routes []route) []route {
	best := map[string]route{}
	for _, r := range routes {
		if r.subresource != "" || !slices.Contains(r.verbs, "list") || r.resource == "componentstatuses" || r.group == "events.k8s.io" {
			continue
		}
		key := r.group + "/" + r.resource
		if b, ok := best[key]; !ok || b.version != "v1" && r.version == "v1" {
			best[key] = r
		}
	}
	var out []route
	for _, key := range sortedKeys(best) {
		out = append(out, best[key])
	}
	return out
}

// writtenByServers are kinds whose status the servers keep themselves.
var writtenByServers = []string{"CustomResourceDefinition", "APIService", "FlowSchema", "PriorityLevelConfiguration", "ServiceCIDR"}

// readers is how many lists are asked for at once: kube-apiserver has each wait
// until its cache is up to date.
const readers = 16

// state reads everything that is stored.
func (s *asked) state(routes []route) (state, error) {
	lists := listed(routes)
	for len(s.readers) < readers {
		s.readers = append(s.readers, &asked{name: s.name, address: s.address})
	}
	next := make(chan int, len(lists))
	for i := range lists {
		next <- i
	}
	close(next)
	got := make([][]*object, len(lists))
	errs := make([]error, len(lists))
	var wg sync.WaitGroup
	for _, r := range s.readers {
		wg.Go(func() {
			for i := range next {
				got[i], errs[i] = r.list(lists[i], s.known)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	out := state{}
	s.known = map[string]*object{}
	for i, list := range got {
		status := slices.ContainsFunc(routes, func(o route) bool {
			return o.group == lists[i].group && o.version == lists[i].version && o.resource == lists[i].resource && o.subresource == "status"
		})
		for _, o := range list {
			o.status = status && !slices.Contains(writtenByServers, lists[i].kind.kind)
			out[o.key], s.known[o.bytes] = o, o
		}
	}
	return out, nil
}

// list reads one collection. Objects that are as they were are not read again.
func (s *asked) list(r route, known map[string]*object) ([]*object, error) {
	var list struct{ Items []json.RawMessage }
	root := "/" + strings.Join(r.root(), "/") + "/"
	if err := s.document(root+r.resource, &list); err != nil {
		if strings.Contains(err.Error(), " 404 ") && r.group == "matrix.test" {
			return nil, nil // somebody has deleted the definition
		}
		return nil, err
	}
	var out []*object
	for _, item := range list.Items {
		if o := known[string(item)]; o != nil {
			out = append(out, o)
			continue
		}
		o := map[string]any{}
		if err := json.Unmarshal(item, &o); err != nil {
			return nil, err
		}
		o["apiVersion"], o["kind"] = r.groupVersion(), r.kind.kind
		m := metadata(o)
		ns, name := text(m["namespace"]), text(m["name"])
		at := root
		if ns != "" {
			at += "namespaces/" + ns + "/"
		}
		made := &object{key: strings.Join([]string{r.group, r.resource, ns, uuid.ReplaceAllString(name, "<uid>")}, "/"), list: at + r.resource, path: at + r.resource + "/" + name, raw: o, bytes: string(item)}
		made.plain, made.managed = plain(o)
		out = append(out, made)
	}
	return out, nil
}

// plain is an object as text without what differs between servers, and its
// managedFields.
func plain(raw map[string]any) (object, managed string) {
	o := clone(raw)
	m := metadata(o)
	for _, k := range []string{"uid", "resourceVersion", "creationTimestamp"} {
		delete(m, k)
	}
	for _, k := range []string{"deletionTimestamp"} {
		if m[k] != nil {
			m[k] = "set"
		}
	}
	if slices.Contains(writtenByServers, text(o["kind"])) {
		delete(o, "status")
	}
	if o["kind"] == "CustomResourceDefinition" {
		delete(m, "generation") // it is not made anew
	}
	fields, _ := m["managedFields"].([]any)
	fields = slices.DeleteFunc(fields, func(f any) bool {
		delete(f.(map[string]any), "time")
		return f.(map[string]any)["subresource"] == "status" && slices.Contains(writtenByServers, text(o["kind"]))
	})
	slices.SortFunc(fields, func(a, b any) int { return strings.Compare(encode(a), encode(b)) })
	delete(m, "managedFields")
	return encode(settled(o, "")), encode(fields)
}

var (
	uuid    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
	address = regexp.MustCompile(`^10\.0\.0\.\d+$`)
	volume  = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}\b`)
)

// settled replaces the values that are times of now, or made by chance.
func settled(v any, key string) any {
	switch t := v.(type) {
	case map[string]any:
		for k, e := range t {
			t[k] = settled(e, k)
		}
	case []any:
		for i := range t {
			t[i] = settled(t[i], key)
		}
	case string:
		if at, err := time.Parse(time.RFC3339Nano, t); err == nil && time.Since(at).Abs() < 72*time.Hour {
			return "<time>"
		}
		if address.MatchString(t) {
			return "<address>"
		}
		return volume.ReplaceAllString(uuid.ReplaceAllString(t, "<uid>"), "<volume>")
	case float64:
		if (key == "nodePort" || key == "healthCheckNodePort") && t >= 30000 {
			return "<port>"
		}
	}
	return v
}

// difference lists the keys under which two states differ.
func (s state) difference(o state) []string {
	var out []string
	for k, a := range s {
		if b := o[k]; b == nil || a.plain != b.plain || a.managed != b.managed {
			out = append(out, k)
		}
	}
	for k := range o {
		if s[k] == nil {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// rank orders kinds as they need each other.
func rank(key string) int {
	for i, p := range []string{"/namespaces/", "apiextensions.k8s.io/", "/nodes/", "/serviceaccounts/", rbac + "/clusterroles/", rbac + "/roles/", rbac} {
		if strings.HasPrefix(key, p) {
			return i
		}
	}
	return 9
}

// restore makes a server hold what it held at the beginning, and returns that anew.
func (s *asked) restore(routes []route, now, base state, ignored map[string]bool) (state, error) {
	for round := range 40 {
		if round > 0 {
			var err error
			if now, err = s.state(routes); err != nil {
				return nil, err
			}
		}
		keys := slices.DeleteFunc(now.difference(base), func(k string) bool { return ignored[k] })
		if len(keys) == 0 {
			return now, nil
		}
		if round > 35 {
			var b strings.Builder
			for _, k := range keys {
				fmt.Fprintf(&b, "%s\n  is  %s\n  was %s\n", k, now[k].text(), base[k].text())
			}
			return nil, fmt.Errorf("%s does not come back to where it was:\n%s", s.name, b.String())
		}
		if round > 2 {
			time.Sleep(time.Duration(round) * 20 * time.Millisecond) // what goes away in the background
		}
		if err := s.mend(round, keys, now, base); err != nil {
			return nil, err
		}
	}
	return now, nil
}

func (o *object) text() string {
	if o == nil {
		return "nothing"
	}
	return o.plain + "\n         " + o.managed
}

// kept are namespaces that cannot be deleted, and definitions, which take all
// their objects with them.
func kept(key string) bool {
	return strings.HasPrefix(key, "apiextensions.k8s.io/") || slices.Contains([]string{"/namespaces//default", "/namespaces//kube-system", "/namespaces//kube-public", "/namespaces//kube-node-lease"}, key)
}

// mend brings objects back: as a rule what is new or changed is deleted and
// made anew; what the servers have made themselves is overwritten.
func (s *asked) mend(round int, keys []string, now, base state) error {
	slices.SortStableFunc(keys, func(a, b string) int { return rank(a) - rank(b) })
	over := map[string]bool{}
	for _, k := range slices.Backward(keys) {
		over[k] = now[k] != nil && base[k] != nil && (kept(k) || round%3 > 0 || s.made[base[k].path] == nil)
		if o := now[k]; o != nil && !over[k] {
			if err := s.remove(k, o, now); err != nil {
				return err
			}
		}
	}
	for _, k := range keys {
		o := base[k]
		switch {
		case o == nil:
		case over[k]:
			if err := s.overwrite(o, now[k]); err != nil {
				return err
			}
		default:
			if err := s.put(o); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove deletes an object without delay. A namespace goes once it is empty.
func (s *asked) remove(key string, o *object, now state) error {
	name := text(metadata(o.raw)["name"])
	if strings.HasPrefix(key, "/namespaces/") {
		for k, in := range now {
			if strings.Split(k, "/")[2] == name {
				if err := s.remove(k, in, now); err != nil {
					return err
				}
			}
		}
	}
	for range 2 { // deleting may add finalizers; and 500 is what a pod's change gets after its namespace is gone
		if _, err := s.do("PATCH", o.path, "application/merge-patch+json", map[string]any{"metadata": map[string]any{"finalizers": nil}}, 404, 409, 422, 500); err != nil && !strings.HasPrefix(key, "apiextensions") {
			return err
		}
		options := map[string]any{"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "propagationPolicy": "Background"}
		if a, err := s.do("DELETE", o.path, "application/json", options, 404, 409); err != nil || a.Code == 404 {
			return err
		}
	}
	if strings.HasPrefix(key, "/namespaces/") {
		empty := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}, "spec": map[string]any{"finalizers": []any{}}}
		if _, err := s.do("PUT", o.path+"/finalize", "application/json", empty, 404, 409); err != nil {
			return err
		}
	}
	return nil
}

// overwrite writes an object over what became of it.
func (s *asked) overwrite(was, is *object) error {
	o := clone(was.raw)
	m := metadata(o)
	delete(m, "uid")
	m["resourceVersion"] = metadata(is.raw)["resourceVersion"]
	if _, err := s.do("PUT", was.path, "application/json", o, 404, 409, 422); err != nil || !was.status {
		return err
	}
	delete(m, "resourceVersion")
	if _, err := s.do("PUT", was.path+"/status", "application/json", o, 404, 409, 422); err != nil || !strings.HasPrefix(was.key, "/namespaces/") {
		return err
	}
	_, err := s.do("PUT", was.path+"/finalize", "application/json", o, 404, 409, 422)
	return err
}

// put makes an object as it was.
func (s *asked) put(was *object) error {
	o := s.made[was.path]
	if o == nil {
		o = was.raw
	}
	o = clone(o)
	m := metadata(o)
	for _, k := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		delete(m, k)
	}
	_, err := s.do("POST", was.list, "application/json", o, 404, 409, 403)
	return err
}

// defined waits until the custom resources are served, for some time on end.
func (s *asked) defined() error {
	for n, try := 0, 0; n < 4; try++ {
		n++
		for _, path := range []string{"/apis/matrix.test/v1/widgets", "/apis/matrix.test/v2/widgets", "/apis/matrix.test/v1/gizmos", "/apis/matrix.test/v2/gizmos", "/apis/matrix.test/v1/plains"} {
			if _, err := s.raw(path); err != nil {
				if try == 400 {
					return err
				}
				n = 0
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}
