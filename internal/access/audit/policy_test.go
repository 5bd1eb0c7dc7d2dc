package audit

import (
	"log/slog"
	"strings"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/request"
)

const header = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func parse(t testing.TB, rules string) *Policy {
	t.Helper()
	p, err := ParsePolicy([]byte(header+rules), discard())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPolicyDecides(t *testing.T) {
	alice := &user.DefaultInfo{Name: "alice", Groups: []string{"people"}}
	pod := &request.Info{IsResource: true, Verb: "get", Version: "v1", Resource: "pods", Namespace: "a", Name: "x", Path: "/api/v1/namespaces/a/pods/x"}
	log := *pod
	log.Subresource = "log"
	scale := &request.Info{IsResource: true, Verb: "update", Group: "apps", Version: "v1", Resource: "deployments", Subresource: "scale", Name: "d"}
	health := &request.Info{Verb: "get", Path: "/healthz/etcd"}
	for _, c := range []struct {
		rule string
		u    user.Info
		i    *request.Info
		want bool
	}{
		{`{level: Metadata}`, alice, pod, true},
		{`{level: Metadata}`, nil, health, true},
		{`{level: Metadata, users: [alice]}`, alice, pod, true},
		{`{level: Metadata, users: [bob]}`, alice, pod, false},
		{`{level: Metadata, users: [alice]}`, nil, pod, false},
		{`{level: Metadata, userGroups: [people]}`, alice, pod, true},
		{`{level: Metadata, userGroups: [others]}`, alice, pod, false},
		{`{level: Metadata, verbs: [get]}`, alice, pod, true},
		{`{level: Metadata, verbs: [list]}`, alice, pod, false},
		{`{level: Metadata, namespaces: [a]}`, alice, pod, true},
		{`{level: Metadata, namespaces: [""]}`, alice, pod, false},
		{`{level: Metadata, namespaces: [""]}`, alice, scale, true},
		{`{level: Metadata, namespaces: [""]}`, alice, health, false},
		{`{level: Metadata, resources: [{group: ""}]}`, alice, pod, true},
		{`{level: Metadata, resources: [{group: apps}]}`, alice, pod, false},
		{`{level: Metadata, resources: [{group: "*"}]}`, alice, scale, true},
		{`{level: Metadata, resources: [{resources: [pods]}]}`, alice, pod, true},
		{`{level: Metadata, resources: [{resources: [pods]}]}`, alice, &log, false},
		{`{level: Metadata, resources: [{resources: [pods/log]}]}`, alice, &log, true},
		{`{level: Metadata, resources: [{resources: ["pods/*"]}]}`, alice, &log, true},
		{`{level: Metadata, resources: [{resources: ["pods/*"]}]}`, alice, pod, true},
		{`{level: Metadata, resources: [{group: "*", resources: ["*/scale"]}]}`, alice, scale, true},
		{`{level: Metadata, resources: [{group: "*", resources: ["*/scale"]}]}`, alice, pod, false},
		{`{level: Metadata, resources: [{resources: ["*"]}]}`, alice, &log, true},
		{`{level: Metadata, resources: [{resources: [pods], resourceNames: [x]}]}`, alice, pod, true},
		{`{level: Metadata, resources: [{resources: [pods], resourceNames: [z]}]}`, alice, pod, false},
		{`{level: Metadata, nonResourceURLs: ["/healthz*"]}`, alice, health, true},
		{`{level: Metadata, nonResourceURLs: ["/healthz"]}`, alice, health, false},
		{`{level: Metadata, nonResourceURLs: ["*"]}`, alice, pod, false},
	} {
		got := parse(t, "rules: ["+c.rule+"]").decide(c.u, c.i).level == request.AuditMetadata
		if got != c.want {
			t.Errorf("%s for %+v: %v", c.rule, c.i, got)
		}
	}
}

func TestPolicyOmits(t *testing.T) {
	p := parse(t, "omitStages: [RequestReceived]\nomitManagedFields: true\nrules:\n- {level: Request, verbs: [get], omitStages: [Panic], omitManagedFields: false}\n- {level: None, verbs: [list]}\n- {level: RequestResponse}\n")
	d := p.decide(nil, &request.Info{Verb: "get"})
	if d.level != request.AuditRequest || len(d.omit) != 2 || d.omitManagedFields {
		t.Errorf("%+v", d)
	}
	if d := p.decide(nil, &request.Info{Verb: "list"}); d.level != request.AuditNone {
		t.Errorf("the first rule that fits counts: %+v", d)
	}
	if d := p.decide(nil, &request.Info{Verb: "x"}); d.level != request.AuditRequestResponse || len(d.omit) != 1 || d.omit[0] != auditv1.StageRequestReceived || !d.omitManagedFields {
		t.Errorf("%+v", d)
	}
}

// Names in a rule are those of users whom the policy's author knows. Users of another control plane take what names they like, and are
// recorded at least as if they had none.
func TestForeignUsers(t *testing.T) {
	p := parse(t, "rules:\n- {level: None, users: [quiet]}\n- {level: Metadata, userGroups: [less], omitStages: [ResponseComplete]}\n- {level: RequestResponse, users: [loud]}\n"+
		"- {level: None, verbs: [list]}\n- {level: Metadata}\n")
	home := &Auditor{Policy: p}
	away := home.Foreign("plane", "one")
	for _, c := range []struct {
		u          user.Info
		verb       string
		home, away request.AuditLevel
		omits      int
	}{
		{&user.DefaultInfo{Name: "quiet"}, "get", request.AuditNone, request.AuditMetadata, 0},
		{&user.DefaultInfo{Groups: []string{"less"}}, "get", request.AuditMetadata, request.AuditMetadata, 0},
		{&user.DefaultInfo{Groups: []string{"less"}}, "list", request.AuditMetadata, request.AuditMetadata, 1},
		{&user.DefaultInfo{Name: "loud"}, "get", request.AuditRequestResponse, request.AuditRequestResponse, 0},
		{&user.DefaultInfo{Name: "x"}, "list", request.AuditNone, request.AuditNone, 0},
		{nil, "get", request.AuditMetadata, request.AuditMetadata, 0},
	} {
		i := &request.Info{Verb: c.verb}
		if got := home.decide(c.u, i).level; got != c.home {
			t.Errorf("%v, %s at home: %v, want %v", c.u, c.verb, got, c.home)
		}
		if got := away.decide(c.u, i); got.level != c.away || len(got.omit) != c.omits {
			t.Errorf("%v, %s away: %+v, want %v", c.u, c.verb, got, c.away)
		}
	}
}

func TestPolicyRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "unknown group version field"},
		{"apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]", "unknown group version field"},
		{"{", "failed decoding"},
		{header, "loaded illegal policy with 0 rules"},
		{header + "rules: [{}]", "rules[0].level: Required value"},
		{header + "rules: [{level: All}]", "rules[0].level: Unsupported value"},
		{header + "omitStages: [x]\nrules: [{level: None}]", "omitStages[0]: Invalid value"},
		{header + "rules: [{level: None, omitStages: [x]}]", "rules[0].omitStages[0]: Invalid value"},
		{header + "rules: [{level: None, nonResourceURLs: [x]}]", "must begin with a '/'"},
		{header + "rules: [{level: None, nonResourceURLs: ['/a*b']}]", "must be the final character"},
		{header + "rules: [{level: None, nonResourceURLs: [/], namespaces: [a]}]", "both regular resources and non-resource URLs"},
		{header + "rules: [{level: None, resources: [{group: 'A B'}]}]", "resources.group"},
		{header + "rules: [{level: None, resources: [{resourceNames: [x]}]}]", "requires at least one resource"},
	} {
		if _, err := ParsePolicy([]byte(c.text), discard()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
	// Unknown fields are ignored.
	if _, err := ParsePolicy([]byte(header+"unknown: 1\nrules: [{level: None, level: None}]"), discard()); err != nil {
		t.Error(err)
	}
}

func FuzzPolicy(f *testing.F) {
	for _, s := range []string{header + "rules: [{level: None}]", header + "rules: [{level: Request, resources: [{group: '*', resources: ['*/*']}]}]", "{", header + "rules: [{level: None, nonResourceURLs: ['']}]"} {
		f.Add([]byte(s), "pods", "log")
	}
	f.Fuzz(func(t *testing.T, text []byte, resource, subresource string) {
		p, err := ParsePolicy(text, discard())
		if err != nil {
			return
		}
		for _, i := range []*request.Info{{Verb: "get", Path: "/" + resource}, {IsResource: true, Verb: "get", Resource: resource, Subresource: subresource}} {
			if d := p.decide(nil, i); d.level < request.AuditNone || d.level > request.AuditRequestResponse {
				t.Errorf("%+v", d)
			}
		}
	})
}
