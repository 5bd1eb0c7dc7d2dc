package test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kanzen-io/kanzen/test/peer"
)

// manifestsOf are right manifests of each admission plugin.
var manifestsOf = map[string]string{
	"ValidatingAdmissionWebhook": webhookManifest("Validating"), "MutatingAdmissionWebhook": webhookManifest("Mutating"),
	"ValidatingAdmissionPolicy": `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: one.static.k8s.io}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "object.metadata.name != 'x'"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: bound.static.k8s.io}
spec: {policyName: one.static.k8s.io, validationActions: [Deny]}
`,
	"MutatingAdmissionPolicy": `apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: one.static.k8s.io}
spec:
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'by': 'policy'}}}"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: bound.static.k8s.io}
spec: {policyName: one.static.k8s.io}
`,
}

func webhookManifest(kind string) string {
	return `apiVersion: admissionregistration.k8s.io/v1
kind: ` + kind + `WebhookConfiguration
metadata: {name: one.static.k8s.io}
webhooks:
- name: hook.example.com
  clientConfig: {url: "https://127.0.0.1:1/hook"}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  admissionReviewVersions: [v1]
  sideEffects: None
`
}

// edit makes a right manifest wrong.
type edit struct{ from, to string }

// wrongManifests are edits of the manifests of webhooks, of policies, and of all.
var wrongManifests = map[string][]edit{
	"": {
		{"name: one.static.k8s.io}", "name: one}"}, {"metadata: {name: one.static.k8s.io}", "metadata: {}"}, {"name: one.static", "name: One.static"}, {"name: one.static.k8s.io}", "name: .static.k8s.io}"},
		{"name: one.static.k8s.io}", "name: one.static.k8s.io, colour: red}"}, {"name: one.static.k8s.io}", "name: one.static.k8s.io, name: two.static.k8s.io}"}, {"metadata: {name: one.static.k8s.io}\n", "metadata: {name: one.static.k8s.io}\ncolour: red\n"},
		{"metadata", "\tmetadata"}, {"metadata:", "metadata: ["}, {"k8s.io/v1\n", "k8s.io/v1beta1\n"}, {"k8s.io/v1\n", "k8s.io/v2\n"}, {"k8s.io/v1\n", "k8s.io/v1alpha1\n"}, {"apiVersion: admissionregistration.k8s.io/v1\n", ""}, {"apiVersion: admissionregistration.k8s.io/v1\n", "apiVersion: v1\n"},
		{"", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n---\n"}, {"", "# nothing\n---\n"}, {"", "{}\n---\n"},
		{"resources: [configmaps]", "resources: []"}, {"operations: [CREATE]", "operations: [EAT]"}, {"apiVersions: [v1]", "apiVersions: []"}, {"apiVersions: [v1]", "apiVersions: 5"},
		{"", "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, metadata: {name: p}}]\n---\n"}, {"", "apiVersion: v1\nkind: List\nitems: [{kind: Pod}]\n---\n"}, {"", "apiVersion: v1\nkind: List\nitems: [{}]\n---\n"},
		{"", "apiVersion: v1\nkind: Status\n---\n"}, {"", "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBindingList\nitems: [{metadata: {name: x}, spec: {policyName: one.static.k8s.io}}]\n---\n"},
		{"", "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfigurationList\nitems: [{metadata: {name: x}}]\n---\n"},
		{"", "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfigurationList\nitems: [{metadata: {name: two.static.k8s.io}}, {metadata: {name: one.static.k8s.io}}]\n---\n"},
	},
	"Webhook": {
		{`url: "https://127.0.0.1:1/hook"`, `service: {namespace: a, name: b}`}, {`url: "https://127.0.0.1:1/hook"`, ``}, {`url: "https://127.0.0.1:1/hook"`, `url: ""`}, {"https://", "http://"}, {"https://127", "https://user@127"},
		{"sideEffects: None", "sideEffects: Some"}, {"  sideEffects: None\n", ""}, {"admissionReviewVersions: [v1]", "admissionReviewVersions: [v9]"}, {"hook.example.com", "hook"}, {"sideEffects: None", "sideEffects: None\n  timeoutSeconds: 99"},
		{"sideEffects: None", "sideEffects: None\n  matchConditions: [{name: a, expression: 'no good'}]"}, {"sideEffects: None", "sideEffects: None\n  namespaceSelector: {matchExpressions: [{key: a, operator: Like}]}"},
	},
	"Policy": {
		{"spec:\n", "spec:\n  paramKind: {apiVersion: v1, kind: ConfigMap}\n"}, {"policyName: one.static.k8s.io", "policyName: one.static.k8s.io, paramRef: {name: p, parameterNotFoundAction: Deny}"}, {"policyName: one.static.k8s.io", "policyName: two.static.k8s.io"},
		{"policyName: one.static.k8s.io", "policyName: one"}, {"policyName: one.static.k8s.io, ", ""}, {"policyName: one.static.k8s.io", "policyName: ''"}, {"name: bound.static.k8s.io", "name: bound"}, {"validationActions: [Deny]", "validationActions: [Eat]"},
		{"object.metadata.name", "objet.metadata.name"}, {"'policy'", "policy"}, {"reinvocationPolicy: Never", "reinvocationPolicy: Perhaps"}, {"  reinvocationPolicy: Never\n", ""}, {"spec:\n", "spec:\n  variables: [{name: a, expression: '1 +'}]\n"},
	},
}

// inScheme is how errors name a table of kinds, after the line of its program.
var inScheme = regexp.MustCompile(` in scheme ".*?"`)

// TestManifestRefusals has kanzen and kube-apiserver not start with wrong manifests for each plugin, for the same reasons.
func TestManifestRefusals(t *testing.T) {
	t.Parallel()
	theirAnswers := peer.NewRecorded[string](t, "manifestrefusals")
	etcd := sync.OnceValue(func() string { return peer.Etcd(t) })
	var asking sync.WaitGroup
	turn := make(chan struct{}, 4)
	asked := 0
	ask := func(plugin, what string, config func(dir string) string, files map[string]string, args ...string) {
		asked++
		asking.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			work, err := os.MkdirTemp("", "manifestrefusals") // removed at once: hundreds of databases would fill a disk
			if err != nil {
				t.Error(err)
				return
			}
			defer os.RemoveAll(work) //nolint:errcheck // what is left is no refusal
			dir := filepath.Join(work, "manifests")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Error(err)
			}
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Error(err)
				}
			}
			file := filepath.Join(work, "admission.yaml")
			if err := os.WriteFile(file, []byte(config(dir)), 0o600); err != nil {
				t.Error(err)
			}
			args = append(args, "--admission-control-config-file="+file)
			theirs := theirAnswers.Answer(plugin+", "+what, func() string { return strings.ReplaceAll(peer.Refusal(t, etcd(), args...), dir, "DIR") })
			_, stderr, code := output(t, binaries.kanzen, append([]string{"serve", "--data-dir", filepath.Join(work, "data"), "--secure-port=0"}, args...)...)
			_, own, _ := strings.Cut(stderr, "Error: ")
			own, theirs = strings.ReplaceAll(strings.TrimSpace(own), dir, "DIR"), strings.TrimPrefix(theirs, "failed to apply admission: ")
			theirs = strings.ReplaceAll(theirs, "\n", "; ") // kanzen ends with one line
			own, theirs = inScheme.ReplaceAllString(own, ""), inScheme.ReplaceAllString(theirs, "")
			if own != theirs || own == "" || code == 0 {
				t.Errorf("%s, %s\nkanzen:         %s\nkube-apiserver: %s", plugin, what, own, theirs)
			}
		})
	}
	for p, plugin := range slices.Sorted(maps.Keys(manifestsOf)) {
		right := manifestsOf[plugin]
		of := func(dir string) string { return admissionConfiguration(map[string]string{plugin: dir}) }
		for family, edits := range wrongManifests {
			for n, e := range edits {
				if family == "" && n%2 != p%2 {
					continue // half of what is wrong for all is asked of each
				}
				if wrong := strings.Replace(right, e.from, e.to, 1); strings.HasSuffix(plugin, family) && wrong != right {
					ask(plugin, fmt.Sprintf("%q → %q", e.from, e.to), of, map[string]string{"a.yaml": wrong})
				}
			}
		}
		ask(plugin, "twice", of, map[string]string{"a.yaml": right, "b.yml": right})
		ask(plugin, "twice in a file", of, map[string]string{"a.JSON": right + "---\n" + right})
		ask(plugin, "a wrong JSON", of, map[string]string{"a.json": "{", "b.txt": "no manifest"})
		ask(plugin, "a relative path", func(string) string { return admissionConfiguration(map[string]string{plugin: "here"}) }, nil)
		ask(plugin, "no directory", func(dir string) string { return admissionConfiguration(map[string]string{plugin: dir + "/none"}) }, nil)
		ask(plugin, "a file", func(dir string) string { return admissionConfiguration(map[string]string{plugin: dir + "/a.yaml"}) }, map[string]string{"a.yaml": right})
		ask(plugin, "the gate off", of, map[string]string{"a.yaml": right}, "--feature-gates=ManifestBasedAdmissionControlConfig=false")
	}
	asking.Wait()
	t.Logf("%d questions", asked)
}

// admissionConfiguration is a configuration of admission with directories of manifests, by plugin.
func admissionConfiguration(dirs map[string]string) string {
	b := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	for plugin, dir := range dirs {
		kind := plugin + "Configuration"
		if strings.HasSuffix(plugin, "Webhook") {
			kind = "WebhookAdmissionConfiguration"
		}
		b += fmt.Sprintf("- name: %s\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: %s, staticManifestsDir: %q}\n", plugin, kind, dir)
	}
	return b
}
