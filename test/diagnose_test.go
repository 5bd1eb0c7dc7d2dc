package test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// This file stages troubles, and asks 'kanzen diagnose' for the cause.

// named is how long a trouble may go without a name, on a machine that runs nothing else: 10 s are promised, and most take one to seven.
// These tests run beside others.
const named = time.Minute

type finding struct {
	Metadata                     struct{ Name string }
	Check, Severity, Since       string
	Summary, Impact, Cause       string
	Evidence, Requests, Commands []string
	Object                       struct{ Resource, Namespace, Name string }
}

func (f *finding) text() string {
	return strings.Join([]string{f.Summary, f.Impact, f.Cause, strings.Join(f.Evidence, "\n"), strings.Join(f.Commands, "\n")}, "\n")
}

// findings asks for what is wrong. The exit code says whether something needs attention.
func (k *kanzen) findings(args ...string) (all []finding, code int) {
	k.t.Helper()
	out, said, code := output(k.t, binaries.kanzen, append([]string{"diagnose", "-o", "json", "--kubeconfig", k.kubeconfig()}, args...)...)
	if code != 0 && code != 2 {
		k.t.Fatalf("kanzen diagnose: %d %s", code, said)
	}
	must(k.t, json.Unmarshal([]byte(out), &all))
	return all, code
}

// diagnosed waits until a check has found something whose texts have all parts.
func (k *kanzen) diagnosed(t *testing.T, check, severity string, parts ...string) *finding {
	t.Helper()
	began := time.Now()
	for {
		all, _ := k.findings()
		for n := range all {
			f := &all[n]
			missing := ""
			for _, p := range parts {
				if !strings.Contains(f.text(), p) {
					missing = p
				}
			}
			if f.Check == check && f.Severity == severity && missing == "" {
				t.Logf("named after %v: %s: %s", time.Since(began).Round(100*time.Millisecond), f.Summary, f.Cause)
				if f.Since == "" || f.Metadata.Name == "" || len(f.Commands) == 0 {
					t.Errorf("incomplete: %+v", f)
				}
				k.page.tells(t, f.Metadata.Name, append(parts, severity, "Try")...)
				return f
			}
		}
		if time.Since(began) > named {
			text, _ := json.MarshalIndent(all, "", " ")
			t.Fatalf("%s %s with %q is not named within %v:\n%s", severity, check, parts, named, text)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// looksOn opens the console of a server beside a test, so that what is named there is looked for on its first page, too.
func (k *kanzen) looksOn(t *testing.T) {
	t.Helper()
	var code struct{ Code string }
	raw, err := k.insecure().RESTClient().Post().AbsPath("/console/codes").DoRaw(t.Context())
	must(t, err)
	must(t, json.Unmarshal(raw, &code))
	b := browser(t, k.address)
	b.open("https://"+k.address+"/console/#code="+code.Code, "#nav a[aria-current]")
	b.finds("#health")
	k.page = b
}

// insecure is a client that takes any certificate of the server.
func (k *kanzen) insecure() *kubernetes.Clientset {
	c := k.config()
	c.TLSClientConfig = rest.TLSClientConfig{Insecure: true, CertData: c.CertData, KeyData: c.KeyData, CertFile: c.CertFile, KeyFile: c.KeyFile}
	return kubernetes.NewForConfigOrDie(c)
}

// tells waits until the console's first page has a finding, whose name begins with one, with all parts of what is told of it.
func (b *tab) tells(t *testing.T, name string, parts ...string) {
	t.Helper()
	if b == nil {
		return
	}
	said := ""
	for end := time.Now().Add(named); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		said = got(b, chromedp.Evaluate[string](fmt.Sprintf(`[...document.querySelectorAll('ol.findings summary')].filter(n => n.dataset.key.startsWith(%q)).map(n => n.closest('li').textContent).join('\n')`, name)))
		all := said != "" && !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(said, p) })
		if all && (slices.Contains(parts, "Info") || b.text("#health") != "healthy") { // the header looks less often
			return
		}
	}
	t.Fatalf("the console does not tell of %s with %q: %q\n%s", name, parts, said, b.text("#main"))
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// TestDiagnoseAdmission stages webhooks and policies that fail, are slow and refuse.
func TestDiagnoseAdmission(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	k.looksOn(t)
	ctx, admin := t.Context(), k.as("", "setup", nil)
	maps, hooks := k.as("", "writer", nil).CoreV1().ConfigMaps("default"), admin.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	refusing := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "canary", http.StatusInternalServerError) }))
	defer refusing.Close()
	slow, slowCA := answering(t, 1200*time.Millisecond, "", "")
	denying, denyingCA := answering(t, 0, "denied", "canary")
	dead := "https://127.0.0.1:" + freePort(t) + "/validate"
	ignore := admissionv1.Ignore
	for name, c := range map[string]struct {
		url             string
		ca              []byte
		ignore, allowed bool
		check, severity string
		says            []string
	}{
		"slow":    {slow, slowCA, false, true, "WebhookSlow", "Warning", []string{"slow/slow.example.com", "s on average", "delayed write", "configmaps", slow}},
		"failing": {refusing.URL, certificateOf(refusing), false, false, "WebhookFailing", "Error", []string{"failing/failing.example.com", "HTTP status 500", "refused write", "kubernetes-admin", refusing.URL}},
		"dead":    {dead, slowCA, false, false, "WebhookFailing", "Error", []string{"dead/dead.example.com", "nothing listens there", dead, "mode=shadow"}},
		"ignored": {dead, slowCA, true, true, "WebhookIgnored", "Warning", []string{"ignored/ignored.example.com", "nothing listens there", "pass without it"}},
		"wrongca": {slow, otherCA(t), false, false, "WebhookFailing", "Error", []string{"wrongca/wrongca.example.com", "not signed by an authority of the caBundle"}},
		"denying": {denying, denyingCA, false, false, "WebhookRefusing", "Info", []string{"denying/denying.example.com", "kubernetes-admin"}},
	} { // the controllers of a server that has just started may be among those whose writes are counted
		c, h := c, hook(name, c.url, c.ca, nil)
		t.Run(name, func(t *testing.T) {
			if c.ignore {
				h.Webhooks[0].FailurePolicy = &ignore
			}
			_, err := hooks.Create(ctx, h, metav1.CreateOptions{})
			must(t, err)
			defer func() { must(t, hooks.Delete(ctx, name, metav1.DeleteOptions{})) }()
			object := map[bool]string{true: "denied", false: name}[name == "denying"]
			if _, err := maps.Create(ctx, configMap(object), metav1.CreateOptions{}); (err == nil) != c.allowed {
				t.Fatal(err)
			}
			f := k.diagnosed(t, c.check, c.severity, c.says...)
			if strings.Contains(fmt.Sprint(f), "canary") || len(f.Requests) == 0 || f.Object.Name != name {
				t.Errorf("%+v", f)
			}
		})
	}
	t.Run("no service", func(t *testing.T) {
		h := hook("lost", "", nil, nil)
		h.Webhooks[0].ClientConfig = admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "hooks", Name: "h"}}
		_, err := hooks.Create(ctx, h, metav1.CreateOptions{})
		must(t, err)
		k.diagnosed(t, "WebhookWithoutService", "Error", "service hooks/h does not exist", "all writes that it matches are refused")
		must(t, hooks.Delete(ctx, "lost", metav1.DeleteOptions{}))
	})
	t.Run("policy", func(t *testing.T) {
		policies := admin.AdmissionregistrationV1()
		rule := admissionv1.NamedRuleWithOperations{RuleWithOperations: hook("", "", nil, nil).Webhooks[0].Rules[0]}
		_, err := policies.ValidatingAdmissionPolicies().Create(ctx, &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "no-maps"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{rule}}, Validations: []admissionv1.Validation{{Expression: "false"}}}}, metav1.CreateOptions{})
		must(t, err)
		_, err = policies.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "no-maps"},
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "no-maps", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}, metav1.CreateOptions{})
		must(t, err)
		for n := range 6 {
			if _, err := maps.Create(ctx, configMap(fmt.Sprint("refused-", n)), metav1.CreateOptions{}); err == nil {
				t.Fatal("not refused")
			}
		}
		k.diagnosed(t, "PolicyRefusing", "Warning", "policy no-maps", "6 refused writes", "kubernetes-admin")
		must(t, policies.ValidatingAdmissionPolicyBindings().Delete(ctx, "no-maps", metav1.DeleteOptions{}))
		must(t, policies.ValidatingAdmissionPolicies().Delete(ctx, "no-maps", metav1.DeleteOptions{}))
	})
	within(t, named, "nothing is told of what is gone", func(context.Context) bool {
		all, _ := k.findings()
		return len(all) == 0
	})
}

func certificateOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// issued makes a certificate for a time, signed by an authority (nil: by itself).
func issued(t *testing.T, name pkix.Name, from, to time.Time, ca *x509.Certificate, caKey any) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: name, NotBefore: from, NotAfter: to, DNSNames: []string{"localhost"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	if ca == nil {
		ca, caKey = c, key
		c.IsCA, c.BasicConstraintsValid = true, true
	}
	der, err := x509.CreateCertificate(rand.Reader, c, ca, key.Public(), caKey)
	must(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func otherCA(t *testing.T) []byte {
	cert, _ := issued(t, pkix.Name{CommonName: "another"}, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), nil, nil)
	return cert
}

// authority reads the authority of a server's data directory.
func (k *kanzen) authority(t *testing.T) (*x509.Certificate, any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(k.dir, "pki", "ca.crt"))
	must(t, err)
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	must(t, err)
	text, err = os.ReadFile(filepath.Join(k.dir, "pki", "ca.key"))
	must(t, err)
	block, _ = pem.Decode(text)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		key, err = x509.ParseECPrivateKey(block.Bytes)
	}
	must(t, err)
	return cert, key
}

// TestDiagnoseObjects stages objects that are stuck, that nothing works on, and that writers fight over.
func TestDiagnoseObjects(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	k.looksOn(t)
	ctx, admin := t.Context(), k.as("", "setup", nil)
	held := func(name string) *corev1.ConfigMap {
		c := configMap(name)
		c.Finalizers = []string{"example.com/keep"}
		c.Data = map[string]string{"a": "b"}
		return c
	}
	// All begin at once: each has to be old enough for a finding.
	_, err := admin.CoreV1().Namespaces().Create(ctx, namespace("stuck"), metav1.CreateOptions{})
	must(t, err)
	_, err = k.as("", "keeper/v2", nil).CoreV1().ConfigMaps("stuck").Create(ctx, held("holder"), metav1.CreateOptions{})
	must(t, err)
	must(t, admin.CoreV1().Namespaces().Delete(ctx, "stuck", metav1.DeleteOptions{}))
	_, err = k.as("", "keeper/v2", nil).CoreV1().ConfigMaps("default").Create(ctx, held("orphan"), metav1.CreateOptions{})
	must(t, err)
	must(t, admin.CoreV1().ConfigMaps("default").Delete(ctx, "orphan", metav1.DeleteOptions{}))
	labels := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	_, err = admin.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}}, metav1.CreateOptions{})
	must(t, err)
	pod := func(name, node string) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *template.Spec.DeepCopy()}
		p.Spec.NodeName = node
		_, err := admin.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{})
		must(t, err)
	}
	pod("unscheduled", "")
	pod("bound", "node-7")

	k.diagnosed(t, "NamespaceStuck", "Warning", "namespace stuck", "configmap holder in stuck has the finalizer example.com/keep, set by keeper", "which watches nothing", "kubectl patch configmaps/holder -n stuck")
	k.diagnosed(t, "DeletionStuck", "Warning", "configmap orphan in default", "set by keeper", "which watches nothing")
	k.diagnosed(t, "NobodyWorks", "Warning", "kube-controller-manager does not work on 1 deployment", "was never taken", "deployment web in default waits")
	k.diagnosed(t, "NobodyWorks", "Warning", "kube-scheduler does not work on 1 pod", "pod unscheduled in default waits")
	k.diagnosed(t, "NodeSilent", "Warning", "no kubelet of node node-7 starts 1 pod", "was never taken", "pod bound in default waits")
	contains(t, k.tells("why", "ns/stuck"), "namespace stuck is not deleted (NamespaceStuck", "configmap holder in stuck has the finalizer example.com/keep, set by keeper", "kubectl patch configmaps/holder -n stuck")
	// What is wrong with an object is told by who looks at it, whichever object the finding is named for.
	contains(t, k.tells("why", "deployment/web"), "waits for its controller, which has seen generation 0 of 1", "kube-controller-manager does not work on 1 deployment (NobodyWorks")
	contains(t, k.tells("why", "pod/unscheduled"), "waits for a scheduler", "kube-scheduler does not work on 1 pod (NobodyWorks")
	contains(t, k.tells("why", "cm/holder", "-n", "stuck"), "namespace stuck is not deleted (NamespaceStuck", "kanzen why namespaces/stuck")
	if k.page != nil {
		k.page.shows("#/object?group=apps&resource=deployments&namespace=default&name=web", "What is wrong with it", "kube-controller-manager does not work on 1 deployment", "Its controller has seen generation 0 of 1")
		k.page.shows("#/object?resource=configmaps&namespace=stuck&name=holder", "What is wrong with it", "kubectl patch configmaps/holder -n stuck")
		k.page.shows("#/overview", "What is wrong now")
	}
	if _, code := k.findings("--fail-on=error"); code != 0 {
		t.Errorf("warnings with --fail-on=error: exit code %d", code)
	}
	if _, code := k.findings(); code != 2 {
		t.Errorf("warnings: exit code %d", code)
	}

	t.Run("a fight", func(t *testing.T) {
		_, err := admin.CoreV1().ConfigMaps("default").Create(ctx, configMap("fought"), metav1.CreateOptions{})
		must(t, err)
		for n := range 10 {
			_, err := k.as("", fmt.Sprintf("controller-%c/v1", 'a'+n%2), nil).CoreV1().ConfigMaps("default").Patch(ctx, "fought", types.MergePatchType,
				fmt.Appendf(nil, `{"data":{"size":"%d"}}`, n%2), metav1.PatchOptions{})
			must(t, err)
		}
		k.diagnosed(t, "Fight", "Warning", "controller-a/v1", "controller-b/v1", "data.size of configmap fought in default", "kanzen why configmaps/fought -n default")
	})
	t.Run("a loop without effect", func(t *testing.T) {
		for range 40 {
			_, err := k.as("", "looper/v1", nil).CoreV1().ConfigMaps("default").Patch(ctx, "fought", types.MergePatchType, []byte(`{"data":{"size":"1"}}`), metav1.PatchOptions{})
			must(t, err)
		}
		k.diagnosed(t, "HotLoop", "Warning", "looper/v1 writes configmap fought in default again and again", "changed nothing")
	})
	t.Run("what a reader may not get", func(t *testing.T) {
		_, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"},
			Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{"flightrecorder.kanzen.io"}, Resources: []string{"findings"}},
				{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"namespaces"}}}}, metav1.CreateOptions{})
		must(t, err)
		_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reader"},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"}, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "bob"}}}, metav1.CreateOptions{})
		must(t, err)
		list := func(user string) string {
			raw, err := k.as(user, "x", nil).RESTClient().Get().AbsPath(recorderAPI + "/findings").DoRaw(ctx)
			if err != nil && !apierrors.IsForbidden(err) {
				t.Fatal(err)
			}
			return string(raw)
		}
		within(t, 30*time.Second, "bob may list findings", func(context.Context) bool { return strings.Contains(list("bob"), "NamespaceStuck") })
		for _, name := range []string{"holder", "orphan", "fought", "data.size"} {
			if strings.Contains(list("bob"), `"`+name) || strings.Contains(list("bob"), name+" in ") || strings.Contains(list("bob"), name+" of ") {
				t.Errorf("bob is told of %s: %s", name, list("bob"))
			}
		}
		if text := list("eve"); strings.Contains(text, "NamespaceStuck") {
			t.Error(text)
		}
	})
	t.Run("table, metric and event", func(t *testing.T) {
		out, said, code := output(t, binaries.kubectl, "--kubeconfig", k.kubeconfig(), "get", "findings")
		if code != 0 {
			t.Fatal(said)
		}
		contains(t, out, "NAME", "SEVERITY", "SINCE", "SUMMARY", "nobodyworks.kube-scheduler", "namespace stuck is not deleted")
		metrics, err := admin.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		must(t, err)
		contains(t, string(metrics), `kanzen_findings{name="NobodyWorks",severity="Warning"} 2`)
		contains(t, k.tells("diagnose"), "WARNING namespace stuck is not deleted (NamespaceStuck, since ", "\n  try       kanzen why ")
	})
}

// TestDiagnoseAPIs stages a broken conversion, an extension API server that is away, and the use of a deprecated version.
func TestDiagnoseAPIs(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	k.looksOn(t)
	ctx, admin := t.Context(), k.as("", "setup", nil)
	post := func(path string, obj any) {
		t.Helper()
		body, err := json.Marshal(obj)
		must(t, err)
		must(t, admin.RESTClient().Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error())
	}
	dead := "https://127.0.0.1:" + freePort(t) + "/convert"
	open := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}
	post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &apiextensionsv1.CustomResourceDefinition{
		TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}, ObjectMeta: metav1.ObjectMeta{Name: "gadgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Kind: "Gadget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: open}, {Name: "v2", Served: true, Schema: open}},
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
				ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &dead}, ConversionReviewVersions: []string{"v1"}}}}})
	within(t, 10*time.Second, "gadgets are served", func(ctx context.Context) bool {
		return admin.RESTClient().Post().AbsPath("/apis/example.com/v1/namespaces/default/gadgets").
			Body([]byte(`{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"g"}}`)).Do(ctx).Error() == nil
	})
	if err := admin.RESTClient().Get().AbsPath("/apis/example.com/v2/namespaces/default/gadgets/g").Do(ctx).Error(); err == nil {
		t.Fatal("converted")
	}
	k.diagnosed(t, "ConversionFailing", "Error", "objects of gadgets.example.com", dead, "nothing listens there", "by kubernetes-admin")
	said := k.tells("why", "gadgets.example.com/g")
	contains(t, said, "created by")

	port := int32(443)
	post("/apis/apiregistration.k8s.io/v1/apiservices", &apiregistrationv1.APIService{TypeMeta: metav1.TypeMeta{APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService"},
		ObjectMeta: metav1.ObjectMeta{Name: "v1.away.example.com"}, Spec: apiregistrationv1.APIServiceSpec{Group: "away.example.com", Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 100,
			InsecureSkipTLSVerify: true, Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "away", Port: &port}}})
	if _, err := admin.RESTClient().Get().AbsPath("/api/v1/namespaces/default/endpoints").DoRaw(ctx); err != nil {
		t.Fatal(err)
	}
	k.diagnosed(t, "DeprecatedAPI", "Info", "endpoints in v1 is used", "kubernetes-admin")
	k.diagnosed(t, "APIServiceAway", "Error", "v1.away.example.com is not available", "answered with 503", "service/away")
	within(t, named, "an Event tells of it", func(ctx context.Context) bool {
		events, err := admin.CoreV1().Events("kube-system").List(ctx, metav1.ListOptions{})
		must(t, err)
		for _, e := range events.Items {
			if e.Reason == "APIServiceAway" && e.Type == "Warning" {
				return true
			}
		}
		return false
	})
}

// TestDiagnoseClients stages clients that cannot authenticate, list again and again, and take the seats of others.
func TestDiagnoseClients(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"), "--max-requests-inflight=10", "--max-mutating-requests-inflight=10")
	k.looksOn(t)
	ctx, admin := t.Context(), k.as("", "setup", nil)
	ca, caKey := k.authority(t)
	cert, key := issued(t, pkix.Name{CommonName: "node-3", Organization: []string{"ops"}}, time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour), ca, caKey)
	expired := k.config()
	expired.CertFile, expired.KeyFile, expired.CertData, expired.KeyData, expired.UserAgent = "", "", cert, key, "agent/v1"
	for range 4 {
		if err := kubernetes.NewForConfigOrDie(expired).RESTClient().Get().AbsPath("/api/v1/pods").Do(ctx).Error(); !apierrors.IsUnauthorized(err) {
			t.Fatal(err)
		}
	}
	k.diagnosed(t, "ClientUnknown", "Warning", "node-3 cannot authenticate", "its client certificate has expired", "4 refused requests", "agent/v1", "127.0.0.1")

	t.Run("an expired kubeconfig", func(t *testing.T) {
		path := kubeconfigFor(t, k, cert, key)
		out, said, code := output(t, binaries.kanzen, "diagnose", "--kubeconfig", path)
		if code != 1 || !strings.Contains(out, "the client certificate of the kubeconfig has expired") || !strings.Contains(said, "Unauthorized") {
			t.Errorf("%d: %s%s", code, out, said)
		}
	})
	t.Run("a storm of lists", func(t *testing.T) {
		for n := range 20 {
			c := configMap(fmt.Sprint("large-", n))
			noise := make([]byte, 150<<10) // answers are compressed
			_, _ = rand.Read(noise)
			c.BinaryData = map[string][]byte{"a": noise}
			_, err := admin.CoreV1().ConfigMaps("default").Create(ctx, c, metav1.CreateOptions{})
			must(t, err)
		}
		for range 100 {
			_, err := k.as("", "lister/v1", nil).CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
			must(t, err)
		}
		k.diagnosed(t, "RelistStorm", "Warning", "lister/v1 lists all configmaps again and again", "MiB in all")
	})
	t.Run("a tenant who takes the seats", func(t *testing.T) {
		_, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "tenants"},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"}, Subjects: []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:authenticated"}}}, metav1.CreateOptions{})
		must(t, err)
		url, webhookCA := answering(t, 2*time.Second, "", "")
		_, err = admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, hook("holding", url, webhookCA, nil), metav1.CreateOptions{})
		must(t, err)
		ctx, cancel := context.WithCancel(ctx)
		var writers sync.WaitGroup
		defer func() { cancel(); writers.Wait() }() // before the webhook ends
		write := func(user string, n int) {
			for i := range n {
				writers.Go(func() {
					maps := k.as(user, user, nil).CoreV1().ConfigMaps("default")
					for m := 0; ctx.Err() == nil; m++ {
						_, err := maps.Create(ctx, configMap(fmt.Sprintf("%s-%d-%d", user, i, m)), metav1.CreateOptions{})
						if err != nil && ctx.Err() == nil && !apierrors.IsTooManyRequests(err) && !apierrors.IsForbidden(err) && !errors.Is(err, context.Canceled) {
							t.Error(err)
							return
						}
					}
				})
			}
		}
		write("greedy", 60)
		write("modest", 2)
		k.diagnosed(t, "SeatsTaken", "Warning", "greedy has ", "seats")
	})
}

// kubeconfigFor writes a kubeconfig of a server with a client certificate.
func kubeconfigFor(t *testing.T, k *kanzen, cert, key []byte) string {
	t.Helper()
	encode := func(b []byte) string { text, _ := json.Marshal(b); return string(text) }
	ca, err := os.ReadFile(filepath.Join(k.dir, "pki", "ca.crt"))
	must(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":"https://%s","certificate-authority-data":%s}}],"users":[{"name":"u","user":{"client-certificate-data":%s,"client-key-data":%s}}]}`,
		k.address, encode(ca), encode(cert), encode(key)), 0o600))
	return path
}

// TestDiagnoseMachine stages a serving certificate that expires, a database near its quota, and snapshots that fail.
func TestDiagnoseMachine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := issued(t, pkix.Name{CommonName: "serving"}, time.Now().Add(-time.Hour), time.Now().Add(5*24*time.Hour), nil, nil)
	must(t, os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	k := serve(t, filepath.Join(dir, "data"), "--etcd-quota-backend-bytes=20971520", "--snapshot-schedule=@every 1s", "--snapshot-dir="+filepath.Join(dir, "file", "snapshots"),
		"--tls-cert-file="+filepath.Join(dir, "tls.crt"), "--tls-private-key-file="+filepath.Join(dir, "tls.key"))
	client := k.insecure()
	k.looksOn(t)
	check := func(name string, before func(), parts ...string) {
		t.Helper()
		text := ""
		defer func() {
			if t.Failed() {
				t.Log(text)
			}
		}()
		within(t, named, name, func(ctx context.Context) bool {
			before()
			raw, err := client.RESTClient().Get().AbsPath(recorderAPI + "/findings").DoRaw(ctx)
			if err != nil {
				t.Fatal(err)
			}
			text = string(raw)
			return strings.Contains(text, `"check":"`+name+`"`)
		})
		contains(t, text, parts...)
		k.page.tells(t, strings.ToLower(name), parts...)
	}
	check("CertificateExpiring", func() {}, "--tls-cert-file of CN=serving", "expires soon")
	check("SnapshotFailing", func() {}, "scheduled snapshots fail; none is known", "not a directory")
	n := 0
	check("DatastoreFull", func() {
		// When the database is full, the server makes room by a defragmentation, and takes writes again.
		m := configMap(fmt.Sprint("filling-", n))
		m.Data = map[string]string{"a": strings.Repeat("x", 250<<10)}
		_, _ = client.CoreV1().ConfigMaps("default").Create(t.Context(), m, metav1.CreateOptions{})
		n++
	}, "of its quota", "configmaps")
}

// TestDiagnoseHealthy asks a server under load, whose clients do what clients do: nothing is wrong.
func TestDiagnoseHealthy(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	if out, _, code := output(t, binaries.kanzen, "diagnose", "--kubeconfig", k.kubeconfig()); code != 0 || out != "" {
		t.Errorf("at rest: %d %q", code, out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	requests := 0
	var mu sync.Mutex
	count := func() { mu.Lock(); requests++; mu.Unlock() }
	for n := range 4 {
		clients.Go(func() {
			c := k.as("", fmt.Sprintf("controller-%d/v1", n), nil).CoreV1()
			w, err := c.ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			defer w.Stop()
			go func() {
				for range w.ResultChan() { //nolint:revive // reads as clients do
				}
			}()
			for i := 0; ctx.Err() == nil; i++ {
				time.Sleep(30 * time.Millisecond) // some hundred requests a second in all: what runs beside needs the processor
				name := fmt.Sprintf("c-%d-%d", n, i)
				m := configMap(name)
				m.Finalizers = []string{"example.com/x"}
				made, err := c.ConfigMaps("default").Create(ctx, m, metav1.CreateOptions{})
				for step := 0; err == nil && step < 5; step++ {
					made.Data = map[string]string{"step": fmt.Sprint(step)}
					made, err = c.ConfigMaps("default").Update(ctx, made, metav1.UpdateOptions{})
					_, _ = c.ConfigMaps("default").Get(ctx, name, metav1.GetOptions{})
					count()
					count()
				}
				if err == nil {
					_, err = c.ConfigMaps("default").Update(ctx, made, metav1.UpdateOptions{}) // without effect, once
				}
				if err == nil {
					err = c.ConfigMaps("default").Delete(ctx, name, metav1.DeleteOptions{})
				}
				if err == nil {
					_, err = c.ConfigMaps("default").Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				}
				if i%10 == 0 && err == nil {
					_, err = c.ConfigMaps("default").List(ctx, metav1.ListOptions{})
				}
				if i%50 == 0 && err == nil {
					ns := namespace(fmt.Sprintf("n-%d-%d", n, i))
					if _, err = c.Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err == nil {
						err = c.Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{})
					}
				}
				if err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for until := time.Now().Add(15 * time.Second); time.Now().Before(until); time.Sleep(time.Second) {
		if all, _ := k.findings(); len(all) != 0 {
			t.Errorf("under load: %+v", all)
			break
		}
	}
	cancel()
	clients.Wait()
	t.Logf("%d requests", requests)
}
