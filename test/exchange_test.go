package test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// exchanged are the kinds that are compared, in each version that is served.
var exchanged = []schema.GroupVersionKind{
	apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinitionList"),
	boxesV1.WithKind("BoxList"), boxesV2.WithKind("BoxList"),
	admissionv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfigurationList"),
}

// everything reads all objects of the kinds that are compared.
func everything(t *testing.T, c client.Client) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, gvk := range exchanged {
		l := &unstructured.UnstructuredList{}
		l.SetGroupVersionKind(gvk)
		within(t, 20*time.Second, "there are "+gvk.String(), func(ctx context.Context) bool { return c.List(ctx, l) == nil })
		for _, u := range l.Items {
			out[gvk.String()+" "+u.GetName()] = u.Object
		}
	}
	return out
}

// TestExchange stops kanzen and starts kube-apiserver on the same etcd, and the
// other way round: each reads what the other wrote, to the last field. It needs
// -peer.
func TestExchange(t *testing.T) {
	if *peerBin == "" {
		t.Skip("no kube-apiserver to exchange with: -peer")
	}
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.csv")
	must(t, os.WriteFile(tokens, []byte(admissionToken+",admin,admin,system:masters\n"), 0o600))
	etcd := startPeerEtcd(t, dir)
	own := func() *kanzen {
		return serve(t, filepath.Join(dir, "kanzen"), "--etcd-servers="+etcd, "--token-auth-file", tokens, "--controllers=", "--service-cluster-ip-range=10.0.0.0/24")
	}
	s := boxScheme(t)
	must(t, admissionv1.AddToScheme(s))
	to := func(url string) client.Client {
		c, err := client.New(&rest.Config{Host: url, BearerToken: admissionToken, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, client.Options{Scheme: s})
		must(t, err)
		return c
	}
	same := func(what string, want, got map[string]any) {
		t.Helper()
		for name := range want {
			if !equal(want[name], got[name]) {
				t.Errorf("%s: %s was\n%v\nand is\n%v", what, name, want[name], got[name])
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d objects, want %d", what, len(got), len(want))
		}
	}
	write := func(c client.Client, by string) {
		t.Helper()
		ctx := t.Context()
		must(t, c.Create(ctx, box1(by+"-one", 3)))
		must(t, c.Create(ctx, &boxV2{ObjectMeta: metav1.ObjectMeta{Name: by + "-two", Namespace: "default"}, Spec: boxV2Spec{Length: "4cm", Note: by}}))
		_, err := applyBox(ctx, c, by, `{"apiVersion":"boxes.example.com/v2","kind":"Box","metadata":{"name":"shared","namespace":"default"},"spec":{"note":"`+by+`"}}`, client.ForceOwnership)
		must(t, err)
		url, none, ignore := "https://127.0.0.1:1/", admissionv1.SideEffectClassNone, admissionv1.Ignore
		must(t, c.Create(ctx, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: by}, Webhooks: []admissionv1.ValidatingWebhook{{
			Name: by + ".example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: &url}, SideEffects: &none, FailurePolicy: &ignore, AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: admissionv1.Rule{APIGroups: []string{"none"}, APIVersions: []string{"*"}, Resources: []string{"*"}}}},
		}}}))
	}
	k := own()
	c := to("https://" + k.address)
	must(t, c.Create(t.Context(), boxDefinition(convertBoxes(t, k, s))))
	within(t, 10*time.Second, "boxes are served", func(ctx context.Context) bool { return c.List(ctx, &boxV2List{}) == nil })
	write(c, "kanzen")
	before := everything(t, c)
	k.end(syscall.SIGTERM)

	url, peer := startPeer(t, dir, etcd, tokens)
	c = to(url)
	same("kube-apiserver reads what kanzen wrote", before, everything(t, c))
	write(c, "peer")
	var d apiextensionsv1.CustomResourceDefinition
	must(t, c.Get(t.Context(), client.ObjectKey{Name: "boxes." + boxesV1.Group}, &d))
	d.Spec.Versions[0].Storage, d.Spec.Versions[1].Storage = false, true
	must(t, c.Update(t.Context(), &d))
	within(t, 30*time.Second, "v2 is stored", func(ctx context.Context) bool {
		return c.Get(ctx, client.ObjectKeyFromObject(&d), &d) == nil && len(d.Status.StoredVersions) == 2
	})
	time.Sleep(2 * time.Second) // kube-apiserver goes by a definition some time after it has it
	must(t, c.Create(t.Context(), box1("in-v2", 9)))
	before = everything(t, c)
	peer.end(syscall.SIGTERM)

	k = own()
	c = to("https://" + k.address)
	same("kanzen reads what kube-apiserver wrote", before, everything(t, c))
	if t.Logf("%d objects", len(before)); len(before) < 15 {
		t.Errorf("only %d objects", len(before))
	}
}

// TestTwoServers has two servers on one etcd serve each other's definitions.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	etcd, peer := "http://127.0.0.1:"+freePort(t), "http://127.0.0.1:"+freePort(t)
	start(t, link(t, "etcd"), "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls="+peer, "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync=true")
	within(t, 20*time.Second, "etcd is healthy", func(ctx context.Context) bool { return healthy(ctx, http.DefaultClient, etcd+"/health") })
	s := boxScheme(t)
	var sides []client.WithWatch
	for _, name := range []string{"a", "b"} {
		k := serve(t, filepath.Join(dir, name), "--etcd-servers="+etcd, "--controllers=")
		c, err := client.NewWithWatch(k.config(), client.Options{Scheme: s})
		must(t, err)
		sides = append(sides, c)
	}
	ctx := t.Context()
	plain := func(plural, kind string) *apiextensionsv1.CustomResourceDefinition {
		d := boxDefinition(apiextensionsv1.WebhookClientConfig{})
		d.Name, d.Spec.Conversion = plural+"."+boxesV1.Group, nil
		d.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind}
		return d
	}
	must(t, sides[0].Create(ctx, plain("boxes", "Box")))
	within(t, 10*time.Second, "the other serves boxes", func(ctx context.Context) bool { return sides[1].List(ctx, &boxV2List{}) == nil })
	w, err := sides[1].Watch(ctx, &boxV2List{}, client.InNamespace("default"))
	must(t, err)
	defer w.Stop()
	for i := range 10 {
		must(t, sides[0].Create(ctx, box1(fmt.Sprint("b", i), i)))
		if b, ok := (<-w.ResultChan()).Object.(*boxV2); !ok || b.Name != fmt.Sprint("b", i) {
			t.Fatalf("event of %+v", b)
		}
	}
	// Both are asked for one kind at once: one gets it, and when it goes the other.
	for round := range 5 {
		kind := fmt.Sprint("Round", round)
		var both [2]*apiextensionsv1.CustomResourceDefinition
		var wg sync.WaitGroup
		for i := range both {
			both[i] = plain(fmt.Sprintf("round%d%c", round, 'a'+i), kind)
			wg.Go(func() {
				if err := sides[i].Create(ctx, both[i]); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		established := func(ctx context.Context, i int) bool {
			d := both[i]
			if err := sides[1-i].Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
				t.Fatal(err)
			}
			for _, c := range d.Status.Conditions {
				if c.Type == apiextensionsv1.NamesAccepted {
					return c.Status == apiextensionsv1.ConditionTrue
				}
			}
			return false
		}
		won := 0
		within(t, 10*time.Second, "one of two has the kind", func(ctx context.Context) bool {
			a, b := established(ctx, 0), established(ctx, 1)
			if won = 0; b {
				won = 1
			}
			return a != b && len(both[0].Status.Conditions) > 0 && len(both[1].Status.Conditions) > 0
		})
		must(t, sides[won].Delete(ctx, both[won]))
		within(t, 10*time.Second, "the other has it", func(ctx context.Context) bool {
			err := sides[0].Get(ctx, client.ObjectKeyFromObject(both[won]), both[won])
			return apierrors.IsNotFound(err) && established(ctx, 1-won)
		})
	}
}
