package sequences

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// names is what the servers have chosen by themselves, of one and of the other, one to one.
type names struct{ peers, ours map[string]string }

func newNames() *names { return &names{map[string]string{}, map[string]string{}} }

// bind says whether two texts may stand for the same thing.
func (n *names) bind(class, ours, peers string) bool {
	ours, peers = class+ours, class+peers
	p, known := n.peers[ours]
	o, met := n.ours[peers]
	if !known && !met {
		n.peers[ours], n.ours[peers] = peers, ours
		return true
	}
	if p == peers && o == ours {
		return true
	}
	n.peers[ours], n.ours[peers] = peers, ours // the difference is told once
	return false
}

// chosen matches what servers choose by themselves: uids, times, generated names, tokens, addresses of services; and where the webhooks of each are.
var chosen = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}` +
	`|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z` +
	`|\bgen-[0-9]+-[bcdfghjklmnpqrstvwxz2456789]{5}\b|kube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}` +
	`|ey[A-Za-z0-9_-]{10,}\.ey[A-Za-z0-9_.-]+` +
	`|\b10\.0\.(?:[1-9]|\d\d|\d\d\d)\.\d{1,3}\b|\bfd00:1::[0-9a-f:]+` +
	`|127\.0\.0\.1:\d{2,5}|\b3[0-2]\d\d\d\b`)

// times are not compared: the servers are asked one after the other.
var times = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT|ey)`)

// age is a cell of a table.
var age = regexp.MustCompile(`^(\d+[smhdy])+( ago)?$`)

// texts says whether two texts are the same but for what servers choose.
func (n *names) texts(ours, peers string) bool {
	if age.MatchString(ours) && age.MatchString(peers) {
		return true
	}
	a, b := chosen.FindAllString(ours, -1), chosen.FindAllString(peers, -1)
	if len(a) != len(b) || chosen.ReplaceAllString(ours, "<>") != chosen.ReplaceAllString(peers, "<>") {
		return false
	}
	for i := range a {
		if times.MatchString(a[i]) && times.MatchString(b[i]) {
			continue
		}
		if !n.bind("", a[i], b[i]) {
			return false
		}
	}
	return true
}

// difference is a place at which two answers are not the same.
type difference struct {
	place       string
	ours, peers string
}

func (d difference) String() string {
	return fmt.Sprintf("%s: kanzen %s, kube-apiserver %s", d.place, d.ours, d.peers)
}

// brief is a value in a message.
func brief(v any) string {
	if v == nil {
		return "nothing"
	}
	s := string(must(json.Marshal(v)))
	return s[:min(len(s), 600)]
}

// counted is a list in a message, of reviews their paths.
func counted(v any) string {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return brief(v)
	}
	paths := make([]string, 0, len(list))
	for _, item := range list {
		m, _ := item.(map[string]any)
		path, ok := m["path"].(string)
		if !ok {
			return brief(v)
		}
		paths = append(paths, path)
	}
	return fmt.Sprintf("%d %s", len(list), paths)
}

// answers compares two.
func (n *names) answers(ours, peers answer) []difference {
	var out []difference
	if ours.code != peers.code {
		return []difference{{"code", fmt.Sprint(ours.code, " ", brief(ours.body)), fmt.Sprint(peers.code, " ", brief(peers.body))}}
	}
	if ours.kind != peers.kind {
		out = append(out, difference{"Content-Type", fmt.Sprint(ours.code, " ", ours.kind), fmt.Sprint(peers.code, " ", peers.kind)})
	}
	if len(ours.warnings) != len(peers.warnings) { // some are in words of kanzen's own
		out = append(out, difference{"warnings", fmt.Sprint(ours.warnings), fmt.Sprint(peers.warnings)})
	}
	return append(out, n.values("", refusal(ours.body), refusal(peers.body))...)
}

// refusal is the body of an answer; of a refusal, its causes in an order and without sentences: docs/differences.md has in what these differ.
func refusal(body any) any {
	o, _ := body.(map[string]any)
	if o["kind"] == "SelfSubjectRulesReview" {
		return unordered(o)
	}
	if o["kind"] != "Status" {
		return body
	}
	o = clone(o)
	d, _ := o["details"].(map[string]any)
	causes, _ := d["causes"].([]any)
	for _, c := range causes {
		delete(c.(map[string]any), "message")
	}
	sort.SliceStable(causes, func(i, j int) bool { return text(causes[i]) < text(causes[j]) })
	causes = slices.CompactFunc(causes, func(a, b any) bool { return text(a) == text(b) }) // how often each is told is not compared
	if d != nil {
		d["causes"] = causes
	}
	message, _ := o["message"].(string)
	if lines := strings.Split(message, "\n"); len(causes) > 0 {
		delete(o, "message") // it has those of the causes
	} else {
		slices.Sort(lines)
		o["message"] = missing.ReplaceAllStringFunc(revision.ReplaceAllString(strings.Join(lines, "\n"), "(n)"), func(s string) string {
			all := strings.Split(strings.TrimSuffix(strings.TrimPrefix(s, "RBAC: ["), "]"), ", ")
			slices.Sort(all)
			return fmt.Sprint("RBAC: ", all)
		})
	}
	return o
}

// unordered is a review of rules, which come in any order.
func unordered(o map[string]any) map[string]any {
	o = clone(o)
	status, _ := o["status"].(map[string]any)
	for _, of := range []string{"resourceRules", "nonResourceRules"} {
		rules, _ := status[of].([]any)
		slices.SortFunc(rules, func(a, b any) int { return strings.Compare(text(a), text(b)) })
	}
	return o
}

// revision is one in a message.
var revision = regexp.MustCompile(`\(\d+\)`)

// missing are the roles that are not there, in any order.
var missing = regexp.MustCompile(`RBAC: \[[^\]]*\]`)

// values compares two documents.
func (n *names) values(place string, ours, peers any) []difference {
	different := []difference{{place, brief(ours), brief(peers)}}
	switch a := ours.(type) {
	case map[string]any:
		if b, ok := peers.(map[string]any); ok {
			return n.objects(place, a, b)
		}
		return different
	case []any:
		b, ok := peers.([]any)
		if ok && strings.HasSuffix(place, ".managedFields") {
			return n.managers(place, a, b)
		}
		if !ok || len(a) != len(b) {
			return []difference{{place, counted(a), counted(peers)}}
		}
		var out []difference
		for i := range a {
			out = append(out, n.values(place+"["+strconv.Itoa(i)+"]", a[i], b[i])...)
		}
		return out
	case string:
		if strings.HasSuffix(place, "].description") && strings.Contains(place, "columnDefinitions[") {
			return nil // kanzen describes columns in its own words
		}
		if b, ok := peers.(string); ok && n.leaf(place, a, b) {
			return nil
		}
		return different
	case float64:
		if b, ok := peers.(float64); ok && (a == b || strings.HasSuffix(strings.ToLower(place), "nodeport") && n.texts(fmt.Sprint(a), fmt.Sprint(b))) {
			return nil
		}
		return different
	}
	if ours != peers {
		return different
	}
	return nil
}

// managers compares managed fields, by their managers.
func (n *names) managers(place string, ours, peers []any) []difference {
	by := func(all []any) (map[string]any, []string) {
		out, order := map[string]any{}, []string{}
		for _, e := range all {
			m, _ := e.(map[string]any)
			key := fmt.Sprint("[", m["manager"], " ", m["operation"], " ", m["apiVersion"], " ", m["subresource"], "]")
			out[key], order = m, append(order, key)
		}
		return out, order
	}
	a, first := by(ours)
	b, second := by(peers)
	out := n.objects(place, a, b)
	if len(out) == 0 && !slices.Equal(first, second) && slices.Equal(together(ours), together(peers)) {
		out = append(out, difference{place + " order", fmt.Sprint(first), fmt.Sprint(second)})
	}
	return out
}

// together says of each manager whether its time is that of the one before it: these are in the order of their names, and which are depends
// on how fast a server is.
func together(managers []any) []bool {
	var out []bool
	for i := 1; i < len(managers); i++ {
		out = append(out, at(managers[i-1], "/time") == at(managers[i], "/time"))
	}
	return out
}

// leaf compares two texts at a place.
func (n *names) leaf(place, ours, peers string) bool {
	switch {
	case place == ".metadata.resourceVersion" && ours != "" && peers != "", place == ".metadata.continue" && ours != "" && peers != "":
		return true // of a list: other objects have moved on. Objects have theirs by objects
	case strings.HasSuffix(place, ".resourceVersion") && ours != "" && peers != "":
		return n.bind("rv", ours, peers)
	}
	return n.texts(ours, peers)
}

func (n *names) objects(place string, ours, peers map[string]any) []difference {
	if len(ours) == 0 && len(peers) == 0 {
		return nil
	}
	var out []difference
	for _, k := range sortedKeys(ours) {
		at := k
		if _, ok := peers[k]; !ok { // owners' keys in managed fields have uids
			at = chosen.ReplaceAllStringFunc(k, func(s string) string {
				if p, ok := n.peers[s]; ok {
					return p
				}
				return s
			})
		}
		if b, ok := peers[at]; ok {
			out = append(out, n.values(place+"."+k, ours[k], b)...)
		} else {
			out = append(out, difference{place + "." + k, brief(ours[k]), "nothing"})
		}
	}
	known := map[string]bool{}
	for k := range ours {
		known[k] = true
		known[chosen.ReplaceAllStringFunc(k, func(s string) string { return n.peers[s] })] = true
	}
	for _, k := range sortedKeys(peers) {
		if !known[k] {
			out = append(out, difference{place + "." + k, "nothing", brief(peers[k])})
		}
	}
	// A list has a revision of the whole, an object has its own.
	if _, list := ours["items"]; !list && place == "" {
		a, _ := ours["metadata"].(map[string]any)
		b, _ := peers["metadata"].(map[string]any)
		if x, _ := a["resourceVersion"].(string); x != "" && a["name"] != nil {
			if y, _ := b["resourceVersion"].(string); !n.bind("rv", x, y) {
				out = append(out, difference{".metadata.resourceVersion", n.peers["rv"+x] + " is what it was for", y})
			}
		}
	}
	return out
}

func sortedKeys(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
