package authz

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
	"github.com/kanzen-io/kanzen/test/peer"
)

const (
	corpus    = "testdata/answers.jsonl.gz"
	seed      = 36
	questions = 5000
	wishes    = 1500
)

// line is one of the corpus: an object that was made, or a question with
// kube-apiserver's answer.
type line struct {
	Object   *object                                    `json:"object,omitempty"`
	Question *authorizationv1.SubjectAccessReviewSpec   `json:"question,omitempty"`
	Answer   *authorizationv1.SubjectAccessReviewStatus `json:"answer,omitempty"`
	Invalid  []string                                   `json:"invalid,omitempty"` // fields, where the question was refused
	Rules    *rules                                     `json:"rules,omitempty"`
	Wish     *wish                                      `json:"wish,omitempty"`
	Granted  *granted                                   `json:"granted,omitempty"`
}

// granted is what became of a wish.
type granted struct {
	Code    int
	Message string
	Status  *authenticationv1.UserInfo
}

// rules is what somebody may do in a namespace.
type rules struct {
	User, Namespace string
	Groups          []string
	Status          authorizationv1.SubjectRulesReviewStatus
}

// asker puts questions to one server.
type asker struct {
	config *rest.Config
	client *kubernetes.Clientset
	as     func(user string) *rest.Config
}

func newAsker(c *rest.Config, as func(user string) *rest.Config) *asker {
	return &asker{c, kubernetes.NewForConfigOrDie(c), as}
}

func theirsAs(c *rest.Config) func(string) *rest.Config {
	return func(user string) *rest.Config {
		as := rest.CopyConfig(c)
		as.BearerToken = user
		return as
	}
}

// wish makes a request as somebody else.
func (a *asker) wish(ctx context.Context, w *wish) (*granted, error) {
	c, err := rest.HTTPClientFor(a.as(w.Asker))
	if err != nil {
		return nil, err
	}
	method, body := http.MethodGet, ""
	if w.Path == whoami {
		method, body = http.MethodPost, `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
	}
	r, err := http.NewRequestWithContext(ctx, method, a.config.Host+w.Path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = maps.Clone(http.Header(w.Header))
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		Message string          `json:"message"`
		Status  json.RawMessage `json:"status"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	g := &granted{Code: resp.StatusCode, Message: answer.Message}
	if w.Path == whoami && resp.StatusCode == http.StatusCreated {
		var s authenticationv1.SelfSubjectReviewStatus
		if err := json.Unmarshal(answer.Status, &s); err != nil {
			return nil, err
		}
		slices.Sort(s.UserInfo.Groups)
		g.Status = &s.UserInfo
	}
	return g, nil
}

func (a *asker) make(t testing.TB, o *object) {
	t.Helper()
	body, err := json.Marshal(o.Body)
	if err != nil {
		t.Fatal(err)
	}
	err = a.client.RESTClient().Post().AbsPath(o.Path).SetHeader("Content-Type", "application/json").Body(body).Do(t.Context()).Error()
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("make %s: %v\n%s", o.Path, err, body)
	}
}

func (a *asker) ask(ctx context.Context, q authorizationv1.SubjectAccessReviewSpec) (line, error) {
	out := line{Question: &q}
	r, err := a.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: q}, metav1.CreateOptions{})
	if s := apierrors.APIStatus(nil); err != nil {
		s, _ = err.(apierrors.APIStatus)
		if s == nil || s.Status().Code != 422 {
			return out, err
		}
		for _, c := range s.Status().Details.Causes {
			out.Invalid = append(out.Invalid, c.Field)
		}
		return out, nil
	}
	out.Answer = &r.Status
	return out, nil
}

func (a *asker) rules(ctx context.Context, user string, groups []string, namespace string) (*rules, error) {
	c := rest.CopyConfig(a.config)
	c.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	r, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return &rules{User: user, Groups: groups, Namespace: namespace, Status: r.Status}, nil
}

// settled waits until a server has taken up the last object of each resource that nodes may read.
func (a *asker) settled(t testing.TB, w []line) {
	t.Helper()
	last := map[string]authorizationv1.SubjectAccessReviewSpec{} // what nodes may read, by resource: each has an index of its own
	for _, l := range w {
		if l.Answer != nil && l.Answer.Allowed && strings.HasPrefix(l.Question.User, "system:node:") && l.Question.ResourceAttributes != nil {
			last[l.Question.ResourceAttributes.Resource] = *l.Question
		}
	}
	within(t, func() bool {
		for _, q := range last {
			if got, err := a.ask(t.Context(), q); err != nil || !got.Answer.Allowed {
				return false
			}
		}
		return true
	})
}

// within polls until f is true.
func within(t testing.TB, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !f() {
		if time.Now().After(deadline) {
			t.Fatal("not within half a minute")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// comparable is an answer without what chance decides: which of several
// permissions is named, and the order of roles that are missing.
func comparable(s *authorizationv1.SubjectAccessReviewStatus) authorizationv1.SubjectAccessReviewStatus {
	if s == nil {
		return authorizationv1.SubjectAccessReviewStatus{}
	}
	out := *s
	if out.Allowed {
		out.Reason = strings.SplitN(out.Reason, " by ", 2)[0]
	} else if list, ok := strings.CutPrefix(out.Reason, "rbac: RBAC: "); ok {
		parts := strings.Split(strings.Trim(list, "[]"), ", ")
		slices.Sort(parts)
		out.Reason = strings.Join(parts, "|")
	} else if before, list, ok := strings.Cut(out.Reason, "\nrbac: RBAC: "); ok {
		parts := strings.Split(strings.Trim(list, "[]"), ", ")
		slices.Sort(parts)
		out.Reason = before + "\n" + strings.Join(parts, "|")
	}
	return out
}

// held asks a server all questions and says where its answers differ.
func held(t *testing.T, a *asker, lines []line) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	same, asked, listed, sameRules, wished, sameWishes := 0, 0, 0, 0, 0, 0
	slots := make(chan struct{}, 4)
	for _, l := range lines {
		if l.Object != nil || l.Wish != nil {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if l.Rules != nil {
				got, err := a.rules(t.Context(), l.Rules.User, l.Rules.Groups, l.Rules.Namespace)
				mu.Lock()
				defer mu.Unlock()
				listed++
				if err != nil || !reflect.DeepEqual(sortedRules(got.Status), sortedRules(l.Rules.Status)) {
					t.Errorf("rules of %s in %s: %v\ngot  %+v\nwant %+v", l.Rules.User, l.Rules.Namespace, err, got, l.Rules)
					return
				}
				sameRules++
				return
			}
			got, err := a.ask(t.Context(), *l.Question)
			mu.Lock()
			defer mu.Unlock()
			asked++
			if err != nil {
				t.Errorf("%+v: %v", l.Question, err)
				return
			}
			if comparable(got.Answer) == comparable(l.Answer) && slices.Equal(got.Invalid, l.Invalid) {
				same++
				return
			}
			q, _ := json.Marshal(l.Question)
			t.Errorf("%s\ngot  %+v %v\nwant %+v %v", q, got.Answer, got.Invalid, l.Answer, l.Invalid)
		})
	}
	wg.Wait()
	// One after the other, because by which mode somebody is refused hangs on
	// which one allowed the last time.
	for _, l := range lines {
		if l.Wish == nil {
			continue
		}
		wished++
		got, err := a.wish(t.Context(), l.Wish)
		if err != nil || !reflect.DeepEqual(withoutReasons(got), withoutReasons(l.Granted)) {
			t.Errorf("%+v: %v\ngot  %+v\nwant %+v", l.Wish, err, got, l.Granted)
			continue
		}
		sameWishes++
	}
	t.Logf("%d of %d answers agree, %d of %d lists of rules, %d of %d impersonations", same, asked, sameRules, listed, sameWishes, wished)
}

// withoutReasons leaves out which roles are missing, whose order is chance.
func withoutReasons(g *granted) *granted {
	if g == nil {
		return nil
	}
	out := *g
	out.Message, _, _ = strings.Cut(g.Message, ": rbac: RBAC: ")
	return &out
}

func sortedRules(s authorizationv1.SubjectRulesReviewStatus) []string {
	var out []string
	for _, r := range s.ResourceRules {
		out = append(out, fmt.Sprintf("%+v", r))
	}
	for _, r := range s.NonResourceRules {
		out = append(out, fmt.Sprintf("%+v", r))
	}
	slices.Sort(out)
	return append(out, fmt.Sprint(s.Incomplete), comparable(&authorizationv1.SubjectAccessReviewStatus{Reason: "rbac: RBAC: " + s.EvaluationError}).Reason)
}

// asked puts this world's questions to a server.
func asked(t *testing.T, a *asker, w *world, n int) []line {
	t.Helper()
	var out []line
	for i := range w.objects {
		out = append(out, line{Object: &w.objects[i]})
	}
	for range n {
		l, err := a.ask(t.Context(), w.question())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
	for range wishes {
		l := line{Wish: new(wish)}
		*l.Wish = w.wish()
		var err error
		if l.Granted, err = a.wish(t.Context(), l.Wish); err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
	for i := range 24 {
		user, groups := named("u", i%7), some(w, "g0", "g1", "g2")
		if i%4 == 3 {
			user, groups = "system:node:n1", []string{"system:nodes"}
		}
		r, err := a.rules(t.Context(), user, groups, namespaces()[i%3])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, line{Rules: r})
	}
	return out
}

func newOurs(t *testing.T) *asker {
	s := kanzentest.Start(t, kanzentest.Controllers("namespace"))
	return newAsker(s.Config(), func(user string) *rest.Config { return s.ConfigFor(user, "system:authenticated") })
}

// TestAgainstPeer asks kube-apiserver and kanzen the same, and writes down what TestRecorded asks.
func TestAgainstPeer(t *testing.T) {
	if !*peer.Recording {
		t.Skip("TestRecorded asks the same; run with -record")
	}
	config := peer.Start(t)
	theirs := newAsker(config, theirsAs(config))
	w := newWorld(seed)
	for i := range w.objects {
		theirs.make(t, &w.objects[i])
	}
	time.Sleep(2 * time.Second) // until its caches have seen the objects, which it does not tell
	lines := asked(t, theirs, w, questions)
	write(t, lines)
	ours := newOurs(t)
	for i := range w.objects {
		ours.make(t, &w.objects[i])
	}
	ours.settled(t, lines)
	held(t, ours, lines)
}

// TestRecorded asks kanzen what kube-apiserver was asked.
func TestRecorded(t *testing.T) {
	lines := read(t)
	ours := newOurs(t)
	for _, l := range lines {
		if l.Object != nil {
			ours.make(t, l.Object)
		}
	}
	ours.settled(t, lines)
	held(t, ours, lines)
}

func write(t *testing.T, lines []line) {
	t.Helper()
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	e := json.NewEncoder(z)
	for _, l := range lines {
		if err := e.Encode(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(corpus, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T) []line {
	t.Helper()
	data, err := os.ReadFile(corpus)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var out []line
	d := json.NewDecoder(bufio.NewReader(z))
	for {
		var l line
		if err := d.Decode(&l); err == io.EOF {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
}
