package test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	admissionapi "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const recorderAPI = "/apis/flightrecorder.kanzen.io/v1alpha1"

// as is a client of the server under another user, or with another program's name; "" is the administrator.
func (k *kanzen) as(user, agent string, warnings rest.WarningHandler) *kubernetes.Clientset {
	c := k.config()
	c.UserAgent, c.WarningHandler = agent, warnings
	if user != "" {
		c.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	}
	return kubernetes.NewForConfigOrDie(c)
}

// tells runs a command against the server and returns what it says.
func (k *kanzen) tells(args ...string) string {
	k.t.Helper()
	out, said, code := output(k.t, binaries.kanzen, append(args, "--kubeconfig", k.kubeconfig())...)
	if code != 0 && (code != 2 || args[0] != "diagnose") {
		k.t.Fatalf("kanzen %s: %d\n%s%s", strings.Join(args, " "), code, out, said)
	}
	return out
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in\n%s", p, text)
		}
	}
}

// warned collects warnings.
type warned struct {
	mu    sync.Mutex
	texts []string
}

func (w *warned) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warned) all() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.texts, "\n")
}

// answering is a webhook that takes its time, and refuses config maps of a name with a message.
func answering(t *testing.T, takes time.Duration, refuses, message string) (at string, ca []byte) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionapi.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		time.Sleep(takes)
		review.Response = &admissionapi.AdmissionResponse{UID: review.Request.UID, Allowed: review.Request.Name != refuses, Result: &metav1.Status{Message: message}}
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(s.Close)
	return s.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func hook(name, url string, ca []byte, annotations map[string]string) *admissionv1.ValidatingWebhookConfiguration {
	none, fail := admissionv1.SideEffectClassNone, admissionv1.Fail
	return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: name + ".example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: &url, CABundle: ca}, SideEffects: &none, FailurePolicy: &fail,
		AdmissionReviewVersions: []string{"v1"}, Rules: []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}}}}}
}

// TestFlightRecorder asks the flight recorder what operators ask: who fights over an object, which webhook is slow, why
// something is forbidden, who deleted a namespace.
func TestFlightRecorder(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	ctx := t.Context()
	admin := k.as("", "setup", nil)

	t.Run("a fight", func(t *testing.T) {
		maps := admin.CoreV1().ConfigMaps("default")
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "fought"}, Data: map[string]string{"size": "0"}}, metav1.CreateOptions{})
		must(t, err)
		for n := range 8 {
			by := k.as("", fmt.Sprintf("controller-%c/v1", 'a'+n%2), nil).CoreV1().ConfigMaps("default")
			c, err := by.Get(ctx, "fought", metav1.GetOptions{})
			must(t, err)
			c.Data["size"] = fmt.Sprint(n%2 + 1)
			_, err = by.Update(ctx, c, metav1.UpdateOptions{})
			must(t, err)
		}
		said := k.tells("why", "cm/fought")
		contains(t, said, "FIGHT over data.size: set alternately 7 times", "controller-a/v1", "controller-b/v1", `data.size: "1" → "2"`, "created by")
		var story struct {
			Fights []struct{ Path string }
		}
		must(t, json.Unmarshal([]byte(k.tells("why", "configmap", "fought", "-o", "json")), &story))
		if len(story.Fights) != 1 || story.Fights[0].Path != "data.size" {
			t.Errorf("as JSON: %+v", story)
		}
	})

	t.Run("a webhook that sleeps", func(t *testing.T) {
		url, ca := answering(t, 1100*time.Millisecond, "", "")
		hooks := admin.AdmissionregistrationV1().ValidatingWebhookConfigurations()
		_, err := hooks.Create(ctx, hook("sleepy", url, ca, nil), metav1.CreateOptions{})
		must(t, err)
		w := &warned{}
		_, err = k.as("", "writer", w).CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "slow"}}, metav1.CreateOptions{})
		must(t, err)
		contains(t, w.all(), `admission webhook "sleepy.example.com" (sleepy) delayed this request by `)
		out, said, code := output(t, binaries.kubectl, "--kubeconfig", k.kubeconfig(), "get", "webhookstats")
		if code != 0 {
			t.Fatal(said)
		}
		contains(t, out, "sleepy:sleepy.example.com", "P99")
		contains(t, k.tells("diagnose"), "webhook sleepy/sleepy.example.com is slow")
		must(t, hooks.Delete(ctx, "sleepy", metav1.DeleteOptions{}))
		within(t, 10*time.Second, "nothing is told of a webhook that is gone", func(context.Context) bool { return !strings.Contains(k.tells("diagnose"), "sleepy") })
	})

	t.Run("webhooks that do not see what others change", func(t *testing.T) {
		url, ca := answering(t, 0, "", "")
		hooks := admin.AdmissionregistrationV1().MutatingWebhookConfigurations()
		for _, name := range []string{"order-a", "order-b"} {
			v := hook(name, url, ca, nil)
			w := &v.Webhooks[0]
			_, err := hooks.Create(ctx, &admissionv1.MutatingWebhookConfiguration{ObjectMeta: v.ObjectMeta, Webhooks: []admissionv1.MutatingWebhook{{
				Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, SideEffects: w.SideEffects, AdmissionReviewVersions: w.AdmissionReviewVersions}}}, metav1.CreateOptions{})
			must(t, err)
		}
		said := ""
		within(t, 10*time.Second, "a webhook that overlooks changes is named", func(context.Context) bool {
			said = k.tells("diagnose")
			return strings.Contains(said, "webhook order-a/order-a.example.com does not see what order-b/order-b.example.com changes")
		})
		if strings.Contains(said, "webhook order-b/order-b.example.com does not see") {
			t.Errorf("of the last one: %s", said)
		}
		for _, name := range []string{"order-a", "order-b"} {
			must(t, hooks.Delete(ctx, name, metav1.DeleteOptions{}))
		}
	})

	t.Run("a webhook in shadow mode", func(t *testing.T) {
		url, ca := answering(t, 0, "shadowed", "no")
		hooks := admin.AdmissionregistrationV1().ValidatingWebhookConfigurations()
		_, err := hooks.Create(ctx, hook("shadow", url, ca, map[string]string{"admission.kanzen.io/mode": "shadow"}), metav1.CreateOptions{})
		must(t, err)
		_, err = admin.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shadowed"}}, metav1.CreateOptions{})
		must(t, err)
		must(t, hooks.Delete(ctx, "shadow", metav1.DeleteOptions{}))
		contains(t, k.tells("why", "cm/shadowed"), "webhook shadow/shadow.example.com: refused, which was ignored")
	})

	t.Run("a webhook that can stop the cluster", func(t *testing.T) {
		w := &warned{}
		c := hook("dangerous", "", nil, nil)
		c.Webhooks[0].ClientConfig = admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "hooks", Name: "h"}}
		c.Webhooks[0].Rules[0].Resources = []string{"pods"}
		_, err := k.as("", "writer", w).AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, c, metav1.CreateOptions{DryRun: []string{"All"}})
		must(t, err)
		contains(t, w.all(), `matches pods in its own namespace "hooks"`, "matches pods in kube-system")
	})

	t.Run("forbidden", func(t *testing.T) {
		_, err := admin.RbacV1().Roles("default").Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "reader"},
			Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}, metav1.CreateOptions{})
		must(t, err)
		bind := func(name, role, user string) {
			_, err := admin.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role}, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}}}, metav1.CreateOptions{})
			must(t, err)
		}
		bind("readers", "reader", "bob")
		bind("lost", "missing", "alice")
		pods := k.as("alice", "x", nil).CoreV1().Pods("default")
		within(t, 30*time.Second, "bob may list", func(ctx context.Context) bool {
			_, err := k.as("bob", "x", nil).CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			return err == nil
		})
		if _, err := pods.List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
		contains(t, k.tells("explain-access", "--as", "alice", "list", "pods", "-n", "default"), "alice may not list pods in namespace default",
			"RoleBinding default/lost (Role missing): its role does not exist", "RoleBinding default/readers (Role reader), which names User bob")
		contains(t, k.tells("explain-access", "--as", "bob", "delete", "pods", "-n", "default"), "bob may not delete", "(get,list of pods) lacks the verb")
		contains(t, k.tells("explain-access", "--as", "bob", "list", "pods", "-n", "default"), "bob may list", "RoleBinding default/readers (Role reader): allows, by get,list of pods")
	})

	t.Run("who may read", func(t *testing.T) {
		for path, body := range map[string]string{"/requests": "", "/watches": "", "/webhookstats": "", "/findings": "",
			"/objecthistories":    `{"apiVersion":"flightrecorder.kanzen.io/v1alpha1","kind":"ObjectHistory","spec":{"resource":"configmaps","namespace":"default","name":"fought"}}`,
			"/accessexplanations": `{"apiVersion":"flightrecorder.kanzen.io/v1alpha1","kind":"AccessExplanation","spec":{"user":"x","nonResourceAttributes":{"verb":"get","path":"/"}}}`} {
			ask := func() error {
				c := k.as("eve", "x", nil).RESTClient()
				if body == "" {
					return c.Get().AbsPath(recorderAPI + path).Do(ctx).Error()
				}
				return c.Post().AbsPath(recorderAPI + path).Body([]byte(body)).Do(ctx).Error()
			}
			if err := ask(); !apierrors.IsForbidden(err) {
				t.Errorf("%s: %v", path, err)
			}
		}
		_, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "historian"},
			Rules: []rbacv1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{"flightrecorder.kanzen.io"}, Resources: []string{"objecthistories"}}}}, metav1.CreateOptions{})
		must(t, err)
		_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "historian"},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "historian"}, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "bob"}}}, metav1.CreateOptions{})
		must(t, err)
		history := func(resource, name string) error {
			return k.as("bob", "x", nil).RESTClient().Post().AbsPath(recorderAPI + "/objecthistories").Body([]byte(fmt.Sprintf(
				`{"apiVersion":"flightrecorder.kanzen.io/v1alpha1","kind":"ObjectHistory","spec":{"resource":%q,"namespace":"default","name":%q}}`, resource, name))).Do(ctx).Error()
		}
		within(t, 30*time.Second, "bob may ask for the history of what he may get", func(context.Context) bool { return history("pods", "p") == nil })
		if err := history("configmaps", "fought"); !apierrors.IsForbidden(err) {
			t.Errorf("the history of what he may not get: %v", err)
		}
	})

	t.Run("who deleted a namespace", func(t *testing.T) {
		_, err := admin.CoreV1().Namespaces().Create(ctx, namespace("shop"), metav1.CreateOptions{})
		must(t, err)
		_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "mallory"},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "mallory"}}}, metav1.CreateOptions{})
		must(t, err)
		within(t, 30*time.Second, "mallory may delete it", func(ctx context.Context) bool {
			return k.as("mallory", "mess", nil).CoreV1().Namespaces().Delete(ctx, "shop", metav1.DeleteOptions{}) == nil
		})
		within(t, 60*time.Second, "it is gone", func(ctx context.Context) bool {
			_, err := admin.CoreV1().Namespaces().Get(ctx, "shop", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
		contains(t, k.tells("why", "ns/shop"), ": deleted", "deletion started by mallory (by ", "with mess", "deleted")
	})

	t.Run("tables and watches", func(t *testing.T) {
		get := func(args ...string) string {
			out, said, code := output(t, binaries.kubectl, append([]string{"--kubeconfig", k.kubeconfig(), "get"}, args...)...)
			if code != 0 {
				t.Fatal(args, said)
			}
			return out
		}
		contains(t, get("requests", "--field-selector", "verb=create,resource=namespaces"), "SLOWEST", "namespaces shop", "201")
		ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
		defer cancel()
		stream, err := admin.RESTClient().Get().AbsPath(recorderAPI+"/requests").Param("watch", "1").Param("resourceVersion", "0").
			Param("fieldSelector", "name=later").Stream(ctx)
		must(t, err)
		defer stream.Close()
		contains(t, get("watches", "-o", "wide"), "LAG", "requests.flightrecorder.kanzen.io")
		_, err = admin.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "later"}}, metav1.CreateOptions{})
		must(t, err)
		var event struct {
			Type   string
			Object struct {
				Name, Verb, Kind string
				Changes          []struct{ Operation string }
			}
		}
		must(t, json.NewDecoder(stream).Decode(&event))
		if event.Type != "ADDED" || event.Object.Name != "later" || event.Object.Kind != "Request" || len(event.Object.Changes) != 1 {
			t.Errorf("%+v", event)
		}
		contains(t, k.tells("top", "--once", "--own", "--window", "2s"), "requests/s", "CLIENTS")
	})
}

// TestSlowRequests looks for slow requests as docs/operations.md says, and at the ages of watches.
func TestSlowRequests(t *testing.T) {
	t.Parallel()
	k := serve(t, t.TempDir(), "--flight-recorder-slow", "1ns")
	ctx, admin := t.Context(), k.as("", "setup/1", nil)
	_, err := admin.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
	must(t, err)
	_, err = admin.CoreV1().ConfigMaps("default").Get(ctx, "late", metav1.GetOptions{})
	must(t, err)
	for _, c := range []struct {
		selector string
		found    bool
	}{{"slow=true", true}, {"kept=Slow", true}, {"kept==Slow,verb=create", true}, {"kept=Slow,verb=get", true}, {"slow=false", false}, {"kept!=Slow", false}} {
		out, said, code := output(t, binaries.kubectl, "--kubeconfig", k.kubeconfig(), "get", "requests", "--field-selector", "name=late,"+c.selector)
		if code != 0 || strings.Contains(out, "configmaps default/late") != c.found {
			t.Errorf("%s: exit code %d\n%s%s", c.selector, code, out, said)
		}
	}
	from := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	for selector, found := range map[string]bool{"since=1h": true, "since=0s": false, "until=1h": false, "until=0s": true, "since=" + from: true, "until=" + from: false, "slower=1ns": true, "slower=1h": false, "since=1h,slower=1ns,verb=create": true} {
		out, said, code := output(t, binaries.kubectl, "--kubeconfig", k.kubeconfig(), "get", "requests", "--field-selector", "name=late,"+selector)
		if code != 0 || strings.Contains(out, "configmaps default/late") != found {
			t.Errorf("%s: exit code %d\n%s%s", selector, code, out, said)
		}
	}
	if _, said, code := output(t, binaries.kubectl, "--kubeconfig", k.kubeconfig(), "get", "requests", "--field-selector", "since=yesterday"); code == 0 || !strings.Contains(said, `"yesterday" is neither a duration, as 10m, nor a time`) {
		t.Errorf("since=yesterday: exit code %d, %s", code, said)
	}
	w, err := admin.CoreV1().ConfigMaps("shop").Watch(ctx, metav1.ListOptions{})
	must(t, err)
	defer w.Stop()
	within(t, 10*time.Second, "a watch with an age and a client", func(context.Context) bool {
		out, _, _ := output(t, binaries.kubectl, "--kubeconfig", k.kubeconfig(), "get", "watches", "--field-selector", "namespace=shop")
		return regexp.MustCompile(`LAG +AGE +CLIENT\n.* \d+s +setup/1\n`).MatchString(out)
	})
}

// TestFlightRecorderTellsNoSecrets plants canaries where secrets are, and looks for them in all that the recorder makes.
func TestFlightRecorderTellsNoSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	flight := filepath.Join(dir, "flight")
	k := serve(t, filepath.Join(dir, "data"), "--flight-recorder-dir", flight, "-v", "3")
	ctx, admin := t.Context(), k.as("", "setup", nil)
	secrets, maps := admin.CoreV1().Secrets("default"), admin.CoreV1().ConfigMaps("default")

	s, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"a": "canary-1"}}, metav1.CreateOptions{})
	must(t, err)
	s.Data["a"], s.Data["b"] = []byte("canary-2"), []byte("canary-3")
	_, err = secrets.Update(ctx, s, metav1.UpdateOptions{})
	must(t, err)
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"a": "canary-body"}}, metav1.CreateOptions{})
	must(t, err)
	if _, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "canary body!"}}}, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	token := k.config()
	token.CertData, token.KeyData, token.CertFile, token.KeyFile, token.BearerToken = nil, nil, "", "", "canary-token"
	if err := kubernetes.NewForConfigOrDie(token).RESTClient().Get().AbsPath("/api/v1/pods").Do(ctx).Error(); !apierrors.IsUnauthorized(err) {
		t.Fatal(err)
	}
	url, ca := answering(t, 0, "refused", "canary-webhook")
	_, err = admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, hook("h", url, ca, nil), metav1.CreateOptions{})
	must(t, err)
	if _, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "refused"}}, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "canary-webhook") {
		t.Fatal(err)
	}

	raw := func(path string, body string) []byte {
		r := admin.RESTClient().Get().AbsPath(path)
		if body != "" {
			r = admin.RESTClient().Post().AbsPath(path).Body([]byte(body))
		}
		b, err := r.DoRaw(ctx)
		must(t, err)
		return b
	}
	places := map[string][]byte{"requests": raw(recorderAPI+"/requests", ""), "webhookstats": raw(recorderAPI+"/webhookstats", ""), "metrics": raw("/metrics", "")}
	for resource, names := range map[string][]string{"secrets": {"s"}, "configmaps": {"m", "n", "refused"}} {
		for _, name := range names {
			places[resource+"/"+name] = raw(recorderAPI+"/objecthistories", fmt.Sprintf(
				`{"apiVersion":"flightrecorder.kanzen.io/v1alpha1","kind":"ObjectHistory","spec":{"resource":%q,"namespace":"default","name":%q}}`, resource, name))
		}
	}
	if !bytes.Contains(places["secrets/s"], []byte(`"data.b"`)) || !bytes.Contains(places["configmaps/refused"], []byte("h/h.example.com")) ||
		!bytes.Contains(places["configmaps/n"], []byte("metadata.labels")) {
		t.Errorf("the histories lack what happened: %s\n%s\n%s", places["secrets/s"], places["configmaps/refused"], places["configmaps/n"])
	}
	// Messages are told to who may get the objects, and else nowhere.
	for place, says := range map[string]string{"configmaps/n": "canary body!", "configmaps/refused": "canary-webhook"} {
		if !bytes.Contains(places[place], []byte(says)) {
			t.Errorf("%s has no message: %s", place, places[place])
		}
		places[place] = bytes.ReplaceAll(places[place], []byte(says), nil)
	}
	contains(t, k.tells("why", "cm/refused"), "ConfigMap refused in default: was not created", "create refused", "message: admission webhook \"h.example.com\" denied the request: canary-webhook")
	within(t, 30*time.Second, "the refusal is on disk", func(context.Context) bool {
		b, err := os.ReadFile(filepath.Join(flight, "requests.jsonl"))
		places["disk"] = b
		return err == nil && bytes.Contains(b, []byte(`"name":"refused"`))
	})
	must(t, filepath.WalkDir(flight, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %v, %v", path, info.Mode(), err)
		}
		return nil
	}))
	places["log"] = []byte(k.stderr.String())
	for place, text := range places {
		if len(text) == 0 {
			t.Errorf("nothing in %s", place)
		}
		for _, c := range []string{"canary", "Y2FuYXJ5"} { // and in base64
			if n := bytes.Index(text, []byte(c)); n >= 0 {
				t.Errorf("a secret in %s: …%s…", place, text[max(0, n-200):min(len(text), n+100)])
			}
		}
	}
}
