package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
	"github.com/kanzen-io/kanzen/test/peer"
)

// These tests send every kind that has a pod spec, with privileged containers in
// every place, to a server that forbids them. Some objects are stored already, by
// a server on the same data that allows them.

// recordedPrivileged has a line for each question and each answer to it: the place,
// what was asked, the answer, and the kinds that gave it.
const recordedPrivileged = "testdata/privileged.txt"

// podSpecKind is a kind that has a pod spec.
type podSpecKind struct {
	resource schema.GroupVersionResource
	kind     string
	spec     []string       // where the pod spec is
	rest     map[string]any // what its spec has beside the template
	scales   bool
	status   bool
}

func podSpecKinds() []podSpecKind {
	core, apps, batch := schema.GroupVersion{Version: "v1"}, schema.GroupVersion{Group: "apps", Version: "v1"}, schema.GroupVersion{Group: "batch", Version: "v1"}
	selector := map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "a"}}}
	template := []string{"spec", "template", "spec"}
	return []podSpecKind{
		{resource: core.WithResource("pods"), kind: "Pod", spec: []string{"spec"}, status: true},
		{resource: core.WithResource("podtemplates"), kind: "PodTemplate", spec: []string{"template", "spec"}},
		{resource: core.WithResource("replicationcontrollers"), kind: "ReplicationController", spec: template,
			rest: map[string]any{"selector": map[string]any{"app": "a"}}, scales: true, status: true},
		{resource: apps.WithResource("replicasets"), kind: "ReplicaSet", spec: template, rest: selector, scales: true, status: true},
		{resource: apps.WithResource("deployments"), kind: "Deployment", spec: template, rest: selector, scales: true, status: true},
		{resource: apps.WithResource("statefulsets"), kind: "StatefulSet", spec: template, rest: selector, scales: true, status: true},
		{resource: apps.WithResource("daemonsets"), kind: "DaemonSet", spec: template, rest: selector, status: true},
		{resource: batch.WithResource("jobs"), kind: "Job", spec: template, status: true},
		{resource: batch.WithResource("cronjobs"), kind: "CronJob", spec: []string{"spec", "jobTemplate", "spec", "template", "spec"},
			rest: map[string]any{"schedule": "0 0 1 1 *", "suspend": true}, status: true},
	}
}

// places are where a pod spec may ask for privileges, and places that look alike.
func places() []string {
	return []string{"nowhere", "container", "containerFalse", "initContainer", "ephemeralContainer", "podHostProcess", "podHostProcessFalse", "containerHostProcess"}
}

// object is an object of the kind whose pod spec asks for privileges at a place.
func (k *podSpecKind) object(name, place string) *unstructured.Unstructured {
	container := map[string]any{"name": "c", "image": "i"}
	spec := map[string]any{"containers": []any{container}, "restartPolicy": "Always"}
	if k.resource.Group == "batch" {
		spec["restartPolicy"] = "Never"
	}
	windows := func(hostProcess bool) map[string]any {
		spec["os"], spec["hostNetwork"] = map[string]any{"name": "windows"}, true
		return map[string]any{"windowsOptions": map[string]any{"hostProcess": hostProcess}}
	}
	privileged := func(v bool) map[string]any { return map[string]any{"privileged": v} }
	switch place {
	case "container", "containerFalse":
		container["securityContext"] = privileged(place == "container")
	case "initContainer":
		spec["initContainers"] = []any{map[string]any{"name": "i", "image": "i", "securityContext": privileged(true)}}
	case "ephemeralContainer":
		spec["ephemeralContainers"] = []any{map[string]any{"name": "e", "image": "i", "securityContext": privileged(true)}}
	case "podHostProcess", "podHostProcessFalse":
		spec["securityContext"] = windows(place == "podHostProcess")
	case "containerHostProcess":
		container["securityContext"] = windows(true)
	}
	o := map[string]any{"apiVersion": k.resource.GroupVersion().String(), "kind": k.kind, "metadata": map[string]any{"name": name}}
	set(o, spec, k.spec...)
	if k.kind != "Pod" {
		set(o, map[string]any{"app": "a"}, append(slices.Clone(k.spec[:len(k.spec)-1]), "metadata", "labels")...)
	}
	for field, v := range k.rest {
		set(o, v, "spec", field)
	}
	return &unstructured.Unstructured{Object: o}
}

// set sets a field of an object. The value may be shared with other objects.
func set(object map[string]any, value any, path ...string) {
	data, _ := json.Marshal(value)
	var own any
	_ = json.Unmarshal(data, &own)
	if err := unstructured.SetNestedField(object, own, path...); err != nil {
		panic(err)
	}
}

// privilegedServers are two servers on the same data.
type privilegedServers struct {
	t *testing.T
	// kinds are those that gave an answer to a question.
	kinds map[string][]string
}

func (p *privilegedServers) note(k *podSpecKind, place, question string, err error) {
	line := fmt.Sprintf("%s, %s: %s", place, question, k.verdict(err))
	p.kinds[line] = append(p.kinds[line], k.kind)
}

// verdict is the code of an answer and where it finds fault. Words count where
// they are the cluster's policy. kube-apiserver finds each fault of a changed job
// twice; once is enough.
func (k *podSpecKind) verdict(err error) string {
	status := apierrors.APIStatus(nil)
	switch {
	case err == nil:
		return "ok"
	case !errors.As(err, &status):
		return err.Error()
	}
	s, causes := status.Status(), []string(nil)
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			field := strings.Replace(c.Field, strings.Join(k.spec, "."), "SPEC", 1)
			text := field + " " + strings.TrimPrefix(string(c.Type), "FieldValue")
			if _, words, _ := strings.Cut(c.Message, ": "); strings.Contains(words, "cluster policy") {
				text += " (" + words + ")"
			}
			causes = append(causes, text)
		}
	}
	slices.Sort(causes)
	return strings.TrimSpace(fmt.Sprintf("%d %s %s", s.Code, s.Reason, strings.Join(slices.Compact(causes), "; ")))
}

const privilegedNamespace = "privileged"

// store stores objects of each kind on a server that allows privileges. It also
// records what such a server answers.
func (p *privilegedServers) store(c *rest.Config) {
	c.WarningHandler = rest.NoWarnings{}
	client, ctx := dynamic.NewForConfigOrDie(c), p.t.Context()
	for _, o := range []map[string]any{
		{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": privilegedNamespace}},
		{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "default", "namespace": privilegedNamespace}},
	} {
		u := &unstructured.Unstructured{Object: o}
		resource := schema.GroupVersionResource{Version: "v1", Resource: strings.ToLower(u.GetKind()) + "s"}
		if _, err := client.Resource(resource).Namespace(u.GetNamespace()).Create(ctx, u, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			p.t.Fatal(err)
		}
	}
	for _, k := range podSpecKinds() {
		objects := client.Resource(k.resource).Namespace(privilegedNamespace)
		for _, place := range places() {
			name := strings.ToLower(place)
			o := k.object(name, place)
			late := k.kind == "Pod" && place == "ephemeralContainer"
			if late {
				o = k.object(name, "nowhere")
			}
			_, err := objects.Create(ctx, o, metav1.CreateOptions{})
			p.note(&k, place, "create where allowed", err)
			if late {
				_, err := objects.Patch(ctx, name, types.StrategicMergePatchType, ephemeral(true), metav1.PatchOptions{}, "ephemeralcontainers")
				p.note(&k, place, "ephemeralcontainers where allowed", err)
			}
		}
	}
}

func ephemeral(privileged bool) []byte {
	return fmt.Appendf(nil, `{"spec":{"ephemeralContainers":[{"name":"e%t","image":"i","securityContext":{"privileged":%[1]t}}]}}`, privileged)
}

// ask asks a server that forbids privileges for every change, without making any.
func (p *privilegedServers) ask(c *rest.Config) {
	c.WarningHandler = rest.NoWarnings{}
	client, ctx := dynamic.NewForConfigOrDie(c), p.t.Context()
	for _, k := range podSpecKinds() {
		objects := client.Resource(k.resource).Namespace(privilegedNamespace)
		for _, place := range places() {
			note := func(question string, err error) { p.note(&k, place, question, err) }
			_, err := objects.Create(ctx, k.object("new", place), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			note("create", err)

			stored, err := objects.Get(ctx, strings.ToLower(place), metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				continue
			} else if err != nil {
				p.t.Fatal(err)
			}
			update := func(change func(o map[string]any)) error {
				o := stored.DeepCopy()
				change(o.Object)
				_, err := objects.Update(ctx, o, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
				return err
			}
			specOf := func(place string) any {
				v, _, _ := unstructured.NestedFieldNoCopy(k.object("new", place).Object, k.spec...)
				return v
			}
			note("relabel", update(func(o map[string]any) { set(o, "b", "metadata", "labels", "a") }))
			for _, to := range []string{"nowhere", "container", "podHostProcess"} {
				note("to "+to, update(func(o map[string]any) { set(o, specOf(to), k.spec...) }))
			}
			note("other image", update(func(o map[string]any) {
				v, _, _ := unstructured.NestedSlice(o, append(slices.Clone(k.spec), "containers")...)
				v[0].(map[string]any)["image"] = "other"
				set(o, v, append(slices.Clone(k.spec), "containers")...)
			}))
			patch := func(body []byte, sub ...string) error {
				_, err := objects.Patch(ctx, stored.GetName(), types.StrategicMergePatchType, body, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, sub...)
				return err
			}
			note("patch labels", patch([]byte(`{"metadata":{"labels":{"a":"b"}}}`)))
			if k.scales {
				_, err := objects.Patch(ctx, stored.GetName(), types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "scale")
				note("scale", err)
			}
			if k.status {
				note("status", patch([]byte(`{"metadata":{"annotations":{"a":"b"}}}`), "status"))
			}
			if k.kind == "Pod" {
				note("ephemeralcontainers", patch(ephemeral(false), "ephemeralcontainers"))
				note("privileged ephemeralcontainers", patch(ephemeral(true), "ephemeralcontainers"))
				note("resize", patch([]byte(`{"spec":{"containers":[{"name":"c","resources":{"limits":{"foo.example.com/x":null}}}]}}`), "resize"))
			}
			note("delete", objects.Delete(ctx, stored.GetName(), metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}))
		}
	}
}

func TestPrivilegedOfPeer(t *testing.T) {
	t.Parallel()
	p := privilegedServers{t, map[string][]string{}}
	etcd := peer.Etcd(t)
	p.store(peer.StartOn(t, etcd))
	p.ask(peer.StartOn(t, etcd, "--allow-privileged=false"))
	if *update {
		if err := os.WriteFile(recordedPrivileged, []byte(strings.Join(p.lines(), "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p.compare()
}

func TestPrivileged(t *testing.T) {
	p := privilegedServers{t, map[string][]string{}}
	dir := kanzentest.DataDir(t.TempDir())
	t.Run("allowed", func(t *testing.T) {
		p.store(kanzentest.Start(t, dir, kanzentest.Controllers()).Config())
	})
	t.Run("forbidden", func(t *testing.T) {
		p.ask(kanzentest.Start(t, dir, kanzentest.Controllers(), kanzentest.Flags("--allow-privileged=false")).Config())
	})
	p.compare()
}

func (p *privilegedServers) lines() []string {
	var out []string
	for answer, kinds := range p.kinds {
		out = append(out, answer+" | "+strings.Join(kinds, " "))
	}
	slices.Sort(out)
	return out
}

// compare holds the answers against the recorded ones.
func (p *privilegedServers) compare() {
	p.t.Helper()
	data, err := os.ReadFile(recordedPrivileged)
	if err != nil {
		p.t.Fatal(err)
	}
	got, want := p.lines(), strings.Split(strings.TrimSpace(string(data)), "\n")
	for _, l := range got {
		if !slices.Contains(want, l) {
			p.t.Errorf("got  %s", l)
		}
	}
	for _, l := range want {
		if !slices.Contains(got, l) {
			p.t.Errorf("want %s", l)
		}
	}
}
