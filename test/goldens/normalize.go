package goldens

import (
	"encoding/json"
	"net/http"
	"regexp"
	"sort"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

var (
	reSATVolume = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}\b`)
	reUUID4     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
	reJWT       = regexp.MustCompile(`^ey[A-Za-z0-9_-]{10,}\.ey[A-Za-z0-9_.-]+$`)
	reAge       = regexp.MustCompile(`^(\d+[smhdy])+$`)
	reNodePort  = regexp.MustCompile(`:\d{5}/`)
	reClusterIP = regexp.MustCompile(`^10\.0\.0\.(1[7-9]|[2-9]\d|[12]\d\d)$`)
)

// kinds whose status the server itself rewrites in the background.
var asyncStatus = map[string]bool{"CustomResourceDefinition": true, "APIService": true, "FlowSchema": true, "PriorityLevelConfiguration": true}

// observe turns an answer into comparable facts.
func observe(resp *http.Response, body []byte, watch bool) Expect {
	e := Expect{Code: resp.StatusCode, Warnings: len(resp.Header.Values("Warning"))}
	e.Type, _, _ = strings.Cut(resp.Header.Get("Content-Type"), ";")
	if watch && resp.StatusCode == 200 {
		dec := json.NewDecoder(strings.NewReader(string(body)))
		for {
			var ev struct {
				Type   string
				Object struct {
					Kind     string
					Metadata struct {
						Name        string
						Annotations map[string]string
					}
				}
			}
			if dec.Decode(&ev) != nil {
				break
			}
			if ev.Type == "BOOKMARK" && ev.Object.Metadata.Annotations["k8s.io/initial-events-end"] == "" {
				continue // a matter of timing
			}
			e.Events = append(e.Events, strings.TrimSpace(ev.Type+" "+ev.Object.Kind+" "+ev.Object.Metadata.Name+" "+ev.Object.Metadata.Annotations["k8s.io/initial-events-end"]))
		}
		return e
	}
	var doc any
	if strings.Contains(e.Type, "yaml") {
		if yaml.Unmarshal(body, &doc) != nil {
			return e
		}
	} else if json.Unmarshal(body, &doc) != nil {
		return e
	}
	m, ok := doc.(map[string]any)
	if !ok {
		return e
	}
	switch {
	case m["kind"] == "Status" && m["apiVersion"] == "v1":
		var st struct {
			Status, Reason string
			Details        struct {
				Group, Kind, Name string
				Causes            []Cause
			}
		}
		b, _ := json.Marshal(m)
		_ = json.Unmarshal(b, &st)
		e.Reason = st.Reason
		if d := st.Details; d.Kind != "" || d.Name != "" {
			e.Details = reUUID4.ReplaceAllString(d.Group+"/"+d.Kind+"/"+d.Name, "<uuid>")
			if len(e.Details) > 400 {
				e.Details = e.Details[:400]
			}
		}
		e.Causes = st.Details.Causes
		for i := range e.Causes {
			e.Causes[i].Field = reUUID4.ReplaceAllString(e.Causes[i].Field, "<uuid>")
		}
		sort.Slice(e.Causes, func(i, j int) bool {
			a, b := e.Causes[i], e.Causes[j]
			return a.Field < b.Field || a.Field == b.Field && a.Reason < b.Reason
		})
	case m["kind"] == "Table":
		e.Table = table(m)
	default:
		e.Managed = managed(m)
		e.Object = normalize(m)
	}
	return e
}

func table(m map[string]any) *Table {
	b, _ := json.Marshal(m)
	var t struct {
		ColumnDefinitions []Column
		Rows              []struct{ Cells []any }
	}
	_ = json.Unmarshal(b, &t)
	out := &Table{Columns: t.ColumnDefinitions, Cells: [][]any{}}
	for _, r := range t.Rows {
		for i, c := range r.Cells {
			if s, ok := c.(string); ok && reAge.MatchString(s) {
				r.Cells[i] = "<age>"
			} else if ok && reClusterIP.MatchString(s) {
				r.Cells[i] = "<ip>"
			} else if ok && reNodePort.MatchString(s) {
				r.Cells[i] = reNodePort.ReplaceAllStringFunc(s, func(p string) string {
					if p[1:6] > "30085" && p[1:6] <= "32767" {
						return ":<port>/"
					}
					return p
				})
			} else {
				r.Cells[i] = walkStrings(c)
			}
		}
		out.Cells = append(out.Cells, r.Cells)
	}
	return out
}

// managed lists managedFields without times, in a stable order.
func managed(m map[string]any) any {
	md, _ := m["metadata"].(map[string]any)
	mf, _ := md["managedFields"].([]any)
	if len(mf) == 0 {
		return nil
	}
	var out []any
	for _, f := range mf {
		if e, ok := clone(f).(map[string]any); ok {
			delete(e, "time")
			out = append(out, walkStrings(e))
		}
	}
	key := func(v any) string { b, _ := json.Marshal(v); return string(b) }
	sort.Slice(out, func(i, j int) bool { return key(out[i]) < key(out[j]) })
	return out
}

func normalize(m map[string]any) any {
	if items, ok := m["items"].([]any); ok && strings.HasSuffix(str(m["kind"]), "List") {
		md, _ := m["metadata"].(map[string]any)
		delete(md, "resourceVersion")
		delete(md, "selfLink")
		if str(md["continue"]) != "" {
			md["continue"] = "<continue>"
		}
		for _, it := range items {
			if o, ok := it.(map[string]any); ok {
				normObject(o, strings.TrimSuffix(str(m["kind"]), "List"))
			}
		}
		return walkStrings(m)
	}
	if rs, ok := m["resources"].([]any); ok && m["kind"] == "APIResourceList" { // custom resources come in no fixed order
		name := func(i int) string { return str(mapOf(rs[i])["name"]) }
		sort.SliceStable(rs, func(i, j int) bool { return name(i) < name(j) })
	}
	if cidrs, ok := m["serverAddressByClientCIDRs"].([]any); ok {
		for _, c := range cidrs {
			mapOf(c)["serverAddress"] = "<address>"
		}
	}
	normObject(m, str(m["kind"]))
	return walkStrings(m)
}

func normObject(m map[string]any, kind string) {
	if md, ok := m["metadata"].(map[string]any); ok {
		for _, k := range []string{"uid", "creationTimestamp", "resourceVersion", "selfLink", "managedFields"} {
			delete(md, k)
		}
		if g := str(md["generateName"]); g != "" {
			md["name"] = generated(g, str(md["name"]))
		}
	}
	if st := mapOf(m["status"]); strings.HasSuffix(kind, "AccessReview") || kind == "TokenReview" { // sentences
		for _, k := range []string{"reason", "evaluationError", "error"} {
			if st[k] != nil {
				st[k] = "<text>"
			}
		}
	}
	if kind == "SelfSubjectRulesReview" { // upstream lists the rules in no fixed order
		st, _ := m["status"].(map[string]any)
		for _, k := range []string{"resourceRules", "nonResourceRules"} {
			if l, ok := st[k].([]any); ok {
				sort.Slice(l, func(i, j int) bool {
					a, _ := json.Marshal(l[i])
					b, _ := json.Marshal(l[j])
					return string(a) < string(b)
				})
			}
		}
	}
	if asyncStatus[kind] {
		delete(m, "status")
	}
	if kind == "Service" {
		spec, _ := m["spec"].(map[string]any)
		if reClusterIP.MatchString(str(spec["clusterIP"])) {
			spec["clusterIP"] = "<ip>"
		}
		if ips, ok := spec["clusterIPs"].([]any); ok {
			for i := range ips {
				if reClusterIP.MatchString(str(ips[i])) {
					ips[i] = "<ip>"
				}
			}
		}
		port := func(o map[string]any, k string) {
			if p, ok := o[k].(float64); ok && p > 30085 && p <= 32767 {
				o[k] = "<port>"
			}
		}
		port(spec, "healthCheckNodePort")
		ports, _ := spec["ports"].([]any)
		for _, p := range ports {
			if o, ok := p.(map[string]any); ok {
				port(o, "nodePort")
			}
		}
	}
}

// generated replaces the random end of a name made from a generateName.
func generated(prefix, name string) string {
	if len(prefix) > 58 {
		prefix = prefix[:58]
	}
	if strings.HasPrefix(name, prefix) && len(name) == len(prefix)+5 {
		return prefix + "~5"
	}
	return name
}

// walkStrings replaces times near now and random values in every string.
func walkStrings(v any) any {
	switch t := v.(type) {
	case map[string]any:
		if t["reason"] == "SchedulingGated" && t["message"] != nil {
			t["message"] = "<text>"
		}
		for k, e := range t {
			t[k] = walkStrings(e)
			if k == "kubernetes.io/limit-ranger" {
				t[k] = "<text>"
			}
		}
	case []any:
		for i := range t {
			t[i] = walkStrings(t[i])
		}
	case string:
		if tm, err := time.Parse(time.RFC3339Nano, t); err == nil && time.Since(tm).Abs() < 72*time.Hour {
			return "<time>"
		}
		if reJWT.MatchString(t) {
			return "<jwt>"
		}
		t = reSATVolume.ReplaceAllString(t, "kube-api-access-~5")
		return reUUID4.ReplaceAllString(t, "<uuid>")
	}
	return v
}

func str(v any) string           { s, _ := v.(string); return s }
func mapOf(v any) map[string]any { m, _ := v.(map[string]any); return m }
