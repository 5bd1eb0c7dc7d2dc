package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/chain/flowcontrol"
	"github.com/kanzen-io/kanzen/internal/observe/recorder"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Bounds of what clients may do.
const (
	manyStrangers = 3        // refused requests in a minute without a known user: one is a slip
	manyTurns     = 6        // of a field between writers, in a minute
	manyIdle      = 30       // writes without effect to one object, in a minute
	manyLists     = 20       // lists of one resource by one client, in a minute
	manyListed    = 64 << 20 // bytes of them
	slowReader    = 5 * time.Second
	usedLately    = time.Hour
)

// clients looks at clients that harm themselves or others.
func (l *look) clients() {
	l.strangers()
	l.endings()
	l.relists()
	l.slowWatchers()
	l.deprecated()
}

// badCredentials says what the reasons of failed authentications mean, and what helps.
var badCredentials = map[string][2]string{
	"CertificateExpired":            {"its client certificate has expired, or is not valid yet", "give the client a new certificate, or set the clocks right"},
	"CertificateOfUnknownAuthority": {"its client certificate is not signed by an authority of --client-ca-file", "give the client a certificate of this cluster, or add its authority"},
	"CertificateInvalid":            {"its client certificate is not valid for clients", "give the client another certificate"},
	"TokenExpired":                  {"its token has expired", "have the client read its token anew, or give it a new one"},
	"TokenMarkedInvalid":            {"its token is in a Secret that was marked invalid, because nobody had used it for long", "remove the label kubernetes.io/legacy-token-invalid-since from the Secret, or better: give the client a token of a pod or of 'kubectl create token'"},
	"TokenNotChecked":               {"what is asked about its token does not answer", "look at the webhook of --authentication-token-webhook-config-file, and at the issuers of OIDC tokens"},
	"TokenInvalid":                  {"its token is not known here", "give the client a token of this cluster"},
}

func (l *look) strangers() {
	slot := slotOf(l.time)
	for _, k := range ranked(l.tally.strangers, manyStrangers, func(t *strangerTally) float64 { return t.count.sum(slot) }) {
		t := l.tally.strangers[k]
		who := "client " + k.program
		if k.name != "" {
			who = "a client that calls itself " + k.name
		}
		f := l.find("ClientUnknown", v1alpha1.SeverityWarning, strings.Join([]string{k.program, k.address, k.name, k.reason}, "/"), "%s cannot authenticate", who)
		f.Impact = fmt.Sprintf("%s in the last minute by %s from %s", plural(int(t.count.sum(slot)), "refused request"), k.program, k.address)
		f.Cause = badCredentials[k.reason][0]
		f.Requests = slices.Clone(t.requests)
		if k.name != "" {
			f.saw("its certificate is for %q; anybody can make one that says so, the address is what is known", k.name)
		}
		f.saw("%s", badCredentials[k.reason][1])
		f.run("kubectl get requests --field-selector code=401")
	}
}

// usedAgain is how long a credential that ends soon may go without use: who has another one by then is not complained of.
const usedAgain = 5 * time.Minute

// longLived is how long a credential is valid that people give, and not programs that renew it.
const longLived = 24 * time.Hour

// endings tells of clients whose certificates or tokens end soon, and that do not renew them.
func (l *look) endings() {
	for _, c := range l.Recorder.EndingCredentials(l.time.Add(-usedAgain)) {
		if !c.Until.After(l.time) {
			continue // a client that uses it still is one that cannot authenticate
		}
		severity := v1alpha1.SeverityInfo
		if c.Until.Sub(c.From) >= longLived {
			severity = v1alpha1.SeverityWarning
		}
		program := recorder.Program(c.UserAgent)
		f := l.find("CredentialExpiring", severity, strings.Join([]string{c.User, program, c.SourceIP, c.Kind}, "/"), "the %s of %s expires in %s", c.Kind, c.User, days(c.Until.Sub(l.time)))
		f.Impact = fmt.Sprintf("%s from %s cannot authenticate from %s on", program, c.SourceIP, c.Until.UTC().Format(time.RFC3339))
		f.Cause = fmt.Sprintf("it was made for %s, and the client has not taken another", days(c.Until.Sub(c.From)))
		f.saw("%s with it, the last one at %s", plural(c.Requests, "request"), c.Last.UTC().Format(time.RFC3339))
		switch c.Kind {
		case request.CredentialBootstrapToken:
			f.run("kubeadm token create --ttl=24h  # nodes that are to join later need another")
		case request.CredentialToken:
			if strings.HasPrefix(c.User, "system:serviceaccount:") {
				f.run("kubectl create token ACCOUNT -n NAMESPACE --duration=24h  # or have the client read the token of its pod anew")
			} else {
				f.saw("the issuer of its token gives it another")
			}
		default:
			f.run("kanzen kubeconfig --user=%s  # a kubeconfig with a new one; in a cluster, what has signed the old one signs a new one", c.User)
		}
		f.run("kubectl get requests --field-selector user=%s", c.User)
	}
}

// days rounds a long time for people.
func days(d time.Duration) string {
	if d >= 48*time.Hour {
		return plural(int(d.Round(24*time.Hour)/(24*time.Hour)), "day")
	}
	return short(d)
}

func (l *look) relists() {
	slot := slotOf(l.time)
	for _, k := range ranked(l.tally.lists, manyListed, func(t *listTally) float64 { return t.bytes.sum(slot) }) {
		t := l.tally.lists[k]
		count, bytes := t.count.sum(slot), t.bytes.sum(slot)
		if count < manyLists {
			continue
		}
		f := l.find("RelistStorm", v1alpha1.SeverityWarning, strings.Join([]string{k.program, k.user, k.group, k.resource}, "/"),
			"%s lists all %s again and again", k.program, resource(k.group, k.resource))
		f.Impact = fmt.Sprintf("%.0f lists with %.1f MiB in all, in the last minute by %s; they cost CPU and network", count, bytes/(1<<20), k.user)
		f.Cause = "the client lists instead of watching, or its watches end early and it begins anew"
		f.Requests = slices.Clone(t.requests)
		f.run("kubectl get requests --field-selector verb=list,resource=%s", k.resource)
		f.run("kubectl get watches --field-selector resource=%s", k.resource)
	}
}

func (l *look) slowWatchers() {
	for _, w := range l.Recorder.Watches() {
		if w.Lag.Duration < slowReader {
			continue
		}
		user := cmp.Or(w.Impersonated, w.User)
		f := l.find("WatcherSlow", v1alpha1.SeverityWarning, w.Name, "%s does not read its watch of %s", recorder.Program(w.UserAgent), resource(w.Group, w.Resource))
		f.Impact = fmt.Sprintf("%s from %s has read nothing for %s, and acts on old objects", user, w.SourceIP, short(w.Lag.Duration))
		f.Cause = "the client is stopped or overloaded, or its network is slow"
		f.Since.Time = l.time.Add(-w.Lag.Duration)
		f.saw("%s were sent, %d bytes", plural(w.Events, "event"), w.Bytes)
		f.run("kubectl get watch.flightrecorder.kanzen.io %s -o yaml", w.Name)
	}
}

// deprecated tells who uses versions that will be removed. What the server does itself is not its user's business.
func (l *look) deprecated() {
	type used struct {
		users    names
		requests int64
		last     time.Time
	}
	all := map[schema.GroupVersionResource]*used{}
	for _, u := range l.Recorder.DeprecatedUses() {
		if l.time.Sub(u.Last.Time) >= usedLately || u.User == "system:apiserver" {
			continue
		}
		k := schema.GroupVersionResource{Group: u.Group, Version: u.Version, Resource: u.Resource}
		if all[k] == nil {
			all[k] = &used{}
		}
		all[k].users.add(u.User)
		all[k].requests += u.Requests
		all[k].last = latest(all[k].last, u.Last.Time)
	}
	for k, u := range all {
		f := l.find("DeprecatedAPI", v1alpha1.SeverityInfo, k.Resource+"."+k.GroupVersion().String(), "%s is used, which is deprecated", k.Resource+" in "+k.GroupVersion().String())
		f.Impact = fmt.Sprintf("%s by %s, the last one at %s", plural(u.requests, "request"), u.users.list(), u.last.UTC().Format(time.RFC3339))
		f.Cause = "clients ask for a version that a later Kubernetes does not serve"
		f.run("kubectl get deprecateduses")
	}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// writers looks at those who undo each other's work, and those who write without effect.
func (l *look) writers() {
	slot := slotOf(l.time)
	turns := func(f *fieldTally) float64 { return f.turns.sum(slot) }
	for _, o := range ranked(l.tally.written, manyTurns, func(t *objectTally) (most float64) {
		for _, f := range t.fields {
			most = max(most, turns(f))
		}
		return most
	}) {
		t := l.tally.written[o]
		path := ranked(t.fields, manyTurns, turns)[0]
		worst := t.fields[path]
		f := l.about("Fight", v1alpha1.SeverityWarning, o, "%s fight over %s of %s", worst.writers.list(), path, l.called(o))
		f.Impact = fmt.Sprintf("%.0f writes in the last minute, none of which lasts", t.writes.sum(slot))
		f.Cause = "each sets a field that the other sets back"
		f.saw("%s went from one writer to another %.0f times in the last minute", path, turns(worst))
		f.run("kanzen why %s", argumentOf(o))
	}
	for _, k := range ranked(l.tally.idle, manyIdle, func(t *idleTally) float64 { return t.count.sum(slot) }) {
		t := l.tally.idle[k]
		if ep, err := l.Objects.Endpoint(schema.GroupResource{Group: k.object.Group, Resource: k.object.Resource}); err != nil || ep.View() == nil {
			continue // what another server stores changes without this one seeing how
		}
		f := l.find("HotLoop", v1alpha1.SeverityWarning, k.writer+"/"+subjectOf(k.object), "%s writes %s again and again, without effect", k.writer, l.called(k.object))
		f.Object, f.reads = &k.object, []v1alpha1.ObjectReference{k.object}
		f.Impact = fmt.Sprintf("%.0f writes in the last minute changed nothing; each costs admission", t.count.sum(slot))
		f.Cause = "the client does not compare what it wants with what is there, or wants what cannot be"
		f.Requests = slices.Clone(t.requests)
		f.run("kanzen why %s", argumentOf(k.object))
	}
}

// called names an object as people do.
func (l *look) called(o v1alpha1.ObjectReference) string {
	s := o.Resource
	if ep, err := l.Objects.Endpoint(schema.GroupResource{Group: o.Group, Resource: o.Resource}); err == nil && ep.R.Singular != "" {
		s = ep.R.Singular
	}
	s += " " + o.Name
	if o.Namespace != "" && o.Namespace != o.Name {
		s += " in " + o.Namespace
	}
	return s
}

// refusals are how often a priority level has turned requests away, and for how long others wait behind one user.
type refusals struct {
	before int // as the level counts
	window window
	// crowded is when others were seen to wait last, since when they were the first time.
	crowded, since time.Time
}

// seats looks at priority levels that turn requests away, or where one user's requests keep those of others waiting.
func (l *look) seats() {
	if l.Levels == nil {
		return
	}
	slot := slotOf(l.time)
	for _, s := range l.Levels() {
		if s.Exempt {
			continue
		}
		r := l.refused[s.Name]
		if r == nil {
			r = &refusals{}
			l.refused[s.Name] = r
		}
		r.window.add(slot, float64(max(0, s.Rejected+s.TimedOut-r.before)))
		r.before = s.Rejected + s.TimedOut
		if crowded(s.Users) {
			if l.time.Sub(r.crowded) > 2*every {
				r.since = l.time
			}
			r.crowded = l.time
		}
		refused := r.window.sum(slot)
		if refused == 0 && (l.time.Sub(r.crowded) > 2*every || r.crowded.Sub(r.since) < patience-fresh) {
			continue
		}
		f := l.find("SeatsTaken", v1alpha1.SeverityWarning, s.Name, "requests of priority level %s wait or are refused", s.Name)
		f.Impact = fmt.Sprintf("%s refused (429) in the last minute, %s now", plural(int(refused), "request"), plural(s.Waiting, "request waiting"))
		f.Cause = "more is asked of it than its seats can serve"
		if user, busy := l.busiest(); user != "" && len(s.Users) == 0 {
			f.Cause = fmt.Sprintf("%s takes most: %.1f requests at a time on average", user, busy)
		}
		if len(s.Users) > 0 {
			u := s.Users[0]
			f.Cause = fmt.Sprintf("%s has %d of %d seats, and %s waiting", u.User, u.Seats, s.Seats, plural(u.Waiting, "request"))
		}
		f.saw("%d seats, %d in use, %d of its own", s.Seats, s.SeatsInUse, s.Nominal)
		f.run("kubectl get prioritylevel.flightrecorder.kanzen.io %s", s.Name)
		f.run("kanzen top")
		f.run("kubectl get flowschemas")
	}
}

// crowded says that requests of others wait while one user wants more than all of them together.
func crowded(users []flowcontrol.UserSeats) bool {
	wanted, waiting := 0, 0
	for n, u := range users {
		wanted += u.Seats + u.Waiting
		if n > 0 {
			waiting += u.Waiting
		}
	}
	return waiting > 0 && 2*(users[0].Seats+users[0].Waiting) > wanted
}

// busiest returns the user whose requests took most time in the last minute, and how many of them were served at a time.
func (l *look) busiest() (user string, busy float64) {
	slot := slotOf(l.time)
	for name, w := range l.tally.users {
		if s := w.sum(slot) / span.Seconds(); s > busy {
			user, busy = name, s
		}
	}
	return user, busy
}
