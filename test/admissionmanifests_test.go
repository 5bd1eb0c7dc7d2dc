package test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/test/peer"
)

// manifestReview answers admission reviews: "/deny" refuses what is called bad, and reviews; "/label" annotates.
func manifestReview(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Request struct {
			UID, Name string
			Kind      struct{ Kind string }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := map[string]any{"uid": review.Request.UID, "allowed": r.URL.Path != "/deny" || review.Request.Name != "bad" && !strings.HasSuffix(review.Request.Kind.Kind, "Review")}
	if r.URL.Path == "/label" {
		patch := `[{"op":"add","path":"/metadata/annotations","value":{"by":"webhook"}}]`
		answer["patch"], answer["patchType"] = base64.StdEncoding.EncodeToString([]byte(patch)), "JSONPatch"
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})
}

// manifestStory is kanzen and kube-apiserver with the same directories of manifests.
type manifestStory struct {
	t       *testing.T
	dirs    map[string]string // by plugin
	webhook string            // its client configuration, with PATH in it
	servers map[string]manifestServer
}

type manifestServer struct {
	client *http.Client
	host   string
}

func (s *manifestStory) write(plugin, file, text string) {
	s.t.Helper()
	must(s.t, os.WriteFile(filepath.Join(s.dirs[plugin], file), []byte(text), 0o600))
}

// hook is a manifest of a webhook for all resources of some groups.
func (s *manifestStory) hook(kind, name, path, groups string) string {
	return fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"%sWebhookConfiguration","metadata":{"name":%q},"webhooks":[{"name":"hook.example.com","clientConfig":%s,
		"rules":[{"apiGroups":[%s],"apiVersions":["*"],"operations":["CREATE"],"resources":["*"]}],"admissionReviewVersions":["v1"],"sideEffects":"None"}]}`,
		kind, name, strings.Replace(s.webhook, "PATH", path, 1), groups)
}

// denial is a manifest of a policy that refuses a name, and of its binding.
func denial(policy, binding, name, resources string) string {
	return fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":%q},"spec":{
		"matchConstraints":{"resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["CREATE"],"resources":[%s]}]},"validations":[{"expression":"object.metadata.name != '%s'"}]}}
---
{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":%q},"spec":{"policyName":%q,"validationActions":["Deny"]}}
`, policy, resources, name, binding, policy)
}

// post creates an object, and returns what came of it: the answer's words, or the object's labels and annotations.
func (m manifestServer) post(t *testing.T, path, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.host+path, strings.NewReader(body))
	must(t, err)
	r.Header.Set("Content-Type", "application/json")
	resp, err := m.client.Do(r)
	must(t, err)
	defer resp.Body.Close()
	var got struct {
		Message, Reason string
		Metadata        struct{ Labels, Annotations map[string]string }
	}
	must(t, json.NewDecoder(resp.Body).Decode(&got))
	return fmt.Sprint(resp.StatusCode, " ", got.Message, got.Reason, got.Metadata.Labels, got.Metadata.Annotations, resp.Header["Warning"])
}

// answers are what a server says to a few writes, as dry runs.
func (s *manifestStory) answers(of string) string {
	s.t.Helper()
	m := s.servers[of]
	var b strings.Builder
	for _, name := range []string{"good", "x", "bad", "listed", "stored"} {
		fmt.Fprintf(&b, "ConfigMap %s: %s\n", name, m.post(s.t, "/api/v1/namespaces/default/configmaps?dryRun=All", fmt.Sprintf(`{"metadata":{"name":%q}}`, name)))
	}
	const group = "/apis/admissionregistration.k8s.io/v1/"
	for _, name := range []string{"good", "bad", "listed", "x.static.k8s.io"} {
		policy, binding, _ := strings.Cut(denial(name, name, "anything", `"secrets"`), "---")
		fmt.Fprintf(&b, "policy %s: %s\n", name, m.post(s.t, group+"validatingadmissionpolicies?dryRun=All", policy))
		fmt.Fprintf(&b, "binding %s: %s\n", name, m.post(s.t, group+"validatingadmissionpolicybindings?dryRun=All", binding))
		for kind, plural := range map[string]string{"Validating": "validatingwebhookconfigurations", "Mutating": "mutatingwebhookconfigurations"} {
			fmt.Fprintf(&b, "%s %s: %s\n", plural, name, m.post(s.t, group+plural+"?dryRun=All", strings.Replace(s.hook(kind, name, "/deny", `"x","authorization.k8s.io"`), `["*"]}],"adm`, `["pods","subjectaccessreviews"]}],"adm`, 1)))
		}
	}
	fmt.Fprintf(&b, "review: %s\n", m.post(s.t, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`))
	lines := strings.Split(b.String(), "\n")
	slices.Sort(lines)
	return strings.ReplaceAll(strings.Join(lines, "\n"), m.host, "HOST")
}

// settled waits until both servers have taken up the files, or have failed to, and compares their answers.
func (s *manifestStory) settled(what string, failed string, parts ...string) {
	s.t.Helper()
	for name, m := range s.servers {
		within(s.t, time.Minute, what+": "+name+" has read the manifests", func(ctx context.Context) bool {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.host+"/metrics", nil)
			must(s.t, err)
			resp, err := m.client.Do(r)
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			metrics, err := io.ReadAll(resp.Body)
			return err == nil && s.taken(string(metrics), failed)
		})
	}
	own, theirs := s.answers("kanzen"), s.answers("kube-apiserver")
	if own != theirs {
		s.t.Errorf("%s:\nkanzen\n%s\nkube-apiserver\n%s", what, own, theirs)
	}
	for _, p := range parts {
		if !strings.Contains(own, p) {
			s.t.Errorf("%s: %q is not in\n%s", what, p, own)
		}
	}
}

// taken says that metrics tell of the manifests as they are, or of a failure of the plugin that has failed.
func (s *manifestStory) taken(metrics, failed string) bool {
	for plugin, dir := range s.dirs {
		want := fmt.Sprintf(`last_config_info{apiserver_id_hash="[^"]*",hash=%q,plugin=%q} 1`, directoryHash(s.t, dir), plugin)
		if plugin == failed {
			want = fmt.Sprintf(`automatic_reloads_total{apiserver_id_hash="[^"]*",plugin=%q,status="failure"} `, plugin)
		}
		before, after, _ := strings.Cut(want, `[^"]*`)
		if !slices.ContainsFunc(strings.Split(metrics, "\n"), func(line string) bool { return strings.Contains(line, before) && strings.Contains(line, after) }) {
			return false
		}
	}
	return true
}

// directoryHash is the hash of the manifests in a directory.
func directoryHash(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var all bytes.Buffer
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must(t, err)
		all.Write(append(data, 0))
	}
	if all.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(all.Bytes()))
}

// TestAdmissionManifests tells a story of manifests on kanzen and kube-apiserver: there at the start, added, in lists, wrong, beside
// what is stored, and removed.
func TestAdmissionManifests(t *testing.T) {
	t.Parallel()
	hooks := tlsServer(t, http.HandlerFunc(manifestReview))
	s := &manifestStory{t: t, dirs: map[string]string{}, servers: map[string]manifestServer{}}
	ca, err := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hooks.Certificate().Raw}))
	must(t, err)
	s.webhook = fmt.Sprintf(`{"url":"%sPATH","caBundle":%s}`, hooks.URL, ca)
	for _, plugin := range slices.Sorted(maps.Keys(manifestsOf)) {
		s.dirs[plugin] = t.TempDir()
	}
	s.write("ValidatingAdmissionPolicy", "start.yaml", denial("start.static.k8s.io", "start.static.k8s.io", "x", `"configmaps"`))
	s.write("ValidatingAdmissionWebhook", "start.json", s.hook("Validating", "start.static.k8s.io", "/deny", `"","admissionregistration.k8s.io","authorization.k8s.io"`))
	file := filepath.Join(t.TempDir(), "admission.yaml")
	must(t, os.WriteFile(file, []byte(admissionConfiguration(s.dirs)), 0o600))
	args := []string{"--admission-control-config-file=" + file, "--disable-admission-plugins=ServiceAccount"}
	for name, config := range map[string]*rest.Config{"kube-apiserver": peer.Start(t, args...), "kanzen": serve(t, filepath.Join(t.TempDir(), "data"), append(args, "--controllers=")...).config()} {
		client, err := rest.HTTPClientFor(config)
		must(t, err)
		s.servers[name] = manifestServer{client, config.Host}
	}
	s.settled("start", "", "denied request: failed expression: object.metadata.name != 'x'", `ConfigMap bad: 400 admission webhook "hook.example.com" denied the request`, "policy bad: 400 ", "ConfigMap good: 201 ", "reserved for static",
		"review: 201 ", "subjectaccessreviews.authorization.k8s.io is excluded from admission webhooks")

	s.write("MutatingAdmissionPolicy", "added.yaml", manifestsOf["MutatingAdmissionPolicy"])
	s.write("MutatingAdmissionWebhook", "added.yml", s.hook("Mutating", "added.static.k8s.io", "/label", `""`))
	s.settled("added", "", "ConfigMap good: 201 map[by:policy] map[by:webhook]")

	policy, binding, _ := strings.Cut(denial("listed.static.k8s.io", "listed.static.k8s.io", "listed", `"*"`), "---")
	s.write("ValidatingAdmissionPolicy", "list.json", `{"apiVersion":"v1","kind":"List","items":[`+policy+","+binding+"]}")
	s.settled("a list", "", "ConfigMap listed: 422 ", "policy listed: 422 ", "binding listed: 422 ", "validatingwebhookconfigurations listed: 422 ", "review: 201 ")

	s.write("ValidatingAdmissionPolicy", "wrong.yaml", "kind: Nothing")
	s.settled("a wrong file", "ValidatingAdmissionPolicy", "ConfigMap listed: 422 ", "ConfigMap x: 422 ")
	must(t, os.Remove(filepath.Join(s.dirs["ValidatingAdmissionPolicy"], "wrong.yaml")))

	// What is stored comes after the manifests, and a stored binding is for a stored policy.
	const group = "/apis/admissionregistration.k8s.io/v1/"
	policy, binding, _ = strings.Cut(denial("stored", "stored", "stored", `"configmaps"`), "---")
	for name, m := range s.servers {
		for _, what := range []string{m.post(t, group+"validatingadmissionpolicies", policy), m.post(t, group+"validatingadmissionpolicybindings", binding),
			m.post(t, group+"validatingadmissionpolicybindings", `{"metadata":{"name":"other"},"spec":{"policyName":"start.static.k8s.io","validationActions":["Warn"]}}`)} {
			if !strings.HasPrefix(what, "201 ") {
				t.Errorf("%s: %s", name, what)
			}
		}
		within(t, time.Minute, name+" has the stored policy in force", func(context.Context) bool {
			return strings.Contains(s.answers(name), "'stored' with binding 'stored' denied request")
		})
	}
	s.settled("beside what is stored", "", "ConfigMap stored: 422 ", "ConfigMap x: 422 ")

	for _, dir := range s.dirs {
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			must(t, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	s.settled("removed", "", "ConfigMap x: 201 ", "ConfigMap bad: 201 map[] map[]", "policy listed: 201 ", "ConfigMap stored: 422 ")
}
