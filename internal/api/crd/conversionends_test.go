package crd_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// hanging is a conversion webhook that answers nothing until its caller gives up.
type hanging struct{ asked, left chan struct{} }

func (h hanging) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	h.asked <- struct{}{}
	<-r.Context().Done()
	h.left <- struct{}{}
}

// startHanging starts a server with the resource things in two versions, which a hanging webhook converts, and a thing "a"
// of the stored version v1.
func startHanging(t *testing.T, options ...kanzentest.Option) (*kanzentest.Server, *cluster, hanging) {
	h := hanging{make(chan struct{}, 10), make(chan struct{}, 10)}
	d := definition("things", func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Versions = append(d.Spec.Versions, version("v2", "length"))
		d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: "a", Name: "b"}},
			ConversionReviewVersions: []string{"v1"}}}
	})
	s := kanzentest.Start(t, append(options, kanzentest.Webhooks(h, kanzentest.Objects(d)))...)
	c := &cluster{t, s.Config(), dynamic.NewForConfigOrDie(s.Config())}
	c.create("v1", "things", "a", map[string]any{"size": int64(1)})
	return s, c, h
}

// conversions are requests for which a webhook has to convert, by their verb.
var conversions = map[string]func(ctx context.Context, v1, v2 dynamic.ResourceInterface) error{
	"get": func(ctx context.Context, _, v2 dynamic.ResourceInterface) error {
		_, err := v2.Get(ctx, "a", metav1.GetOptions{})
		return err
	},
	"list": func(ctx context.Context, _, v2 dynamic.ResourceInterface) error {
		_, err := v2.List(ctx, metav1.ListOptions{})
		return err
	},
	"create": func(ctx context.Context, _, v2 dynamic.ResourceInterface) error {
		_, err := v2.Create(ctx, thing("v2", "b", map[string]any{"length": int64(1)}), metav1.CreateOptions{})
		return err
	},
	"patch": func(ctx context.Context, _, v2 dynamic.ResourceInterface) error {
		_, err := v2.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"length":5}}`), metav1.PatchOptions{})
		return err
	},
	"delete": func(ctx context.Context, _, v2 dynamic.ResourceInterface) error {
		return v2.Delete(ctx, "a", metav1.DeleteOptions{})
	},
	// Objects are compared in the version in which their fields are managed, and so converted although all else is in v1.
	"update": func(ctx context.Context, v1, _ dynamic.ResourceInterface) error {
		managed := thing("v1", "a", map[string]any{"size": int64(2)})
		managed.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Update", APIVersion: "example.com/v2", FieldsType: "FieldsV1",
			Time: &metav1.Time{Time: time.Now()}, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:length":{}}}`)}})
		got, err := v1.Get(ctx, "a", metav1.GetOptions{})
		if err != nil {
			return err
		}
		managed.SetResourceVersion(got.GetResourceVersion())
		_, err = v1.Update(ctx, managed, metav1.UpdateOptions{})
		return err
	},
}

// A conversion webhook is not waited for by requests whose client has gone: the call ends, and so does the request.
func TestConversionEndsWithItsClient(t *testing.T) {
	s, c, h := startHanging(t)
	for verb, do := range conversions {
		t.Run(verb, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			failed := make(chan error, 1)
			go func() {
				failed <- do(ctx, c.client.Resource(things("v1", "things")), c.client.Resource(things("v2", "things")))
			}()
			await(t, "the webhook is asked", h.asked)
			cancel()
			await(t, "the call ends", h.left)
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			soon, stop := context.WithTimeout(t.Context(), patience)
			defer stop()
			of := kanzentest.Match{Resource: "things", Verbs: verb}
			if _, err := s.AwaitRequest(soon, of); err != nil {
				t.Errorf("the request goes on: %v", err)
			}
			if got := len(h.asked); got != 0 {
				t.Errorf("the webhook was asked %d more times", got)
			}
		})
	}
}

// The timeout that a request asks for bounds the conversions for it.
func TestConversionEndsWithItsDeadline(t *testing.T) {
	_, c, h := startHanging(t)
	config := rest.CopyConfig(c.config)
	config.APIPath, config.GroupVersion, config.NegotiatedSerializer = "/apis", &apiextensionsv1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for verb, body := range map[string]string{"GET": "", "PATCH": `{"spec":{"length":5}}`} {
		began := time.Now()
		r := client.Verb(verb).AbsPath("/apis/example.com/v2/things/a").Param("timeout", "1s").SetHeader("Content-Type", string(types.MergePatchType)).Body([]byte(body))
		err := r.Do(t.Context()).Error()
		if !apierrors.IsTimeout(err) {
			t.Errorf("%s: %v", verb, err)
		}
		if took := time.Since(began); took >= patience {
			t.Errorf("%s took %v", verb, took)
		}
		await(t, "the webhook is asked", h.asked)
		await(t, "the call ends", h.left)
	}
}

// A conversion that was given up does not make an object unreadable: who may delete what cannot be read does not get rid of it, and nobody is told that it
// is corrupt.
func TestGivenUpIsNotCorrupt(t *testing.T) {
	_, c, h := startHanging(t, kanzentest.Flags("--feature-gates=AllowUnsafeMalformedObjectDeletion=true"))
	config := rest.CopyConfig(c.config)
	config.APIPath, config.GroupVersion, config.NegotiatedSerializer = "/apis", &apiextensionsv1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"GET", "DELETE"} {
		r := client.Verb(verb).AbsPath("/apis/example.com/v2/things/a").Param("timeout", "1s")
		if verb == "DELETE" {
			r = r.Param("ignoreStoreReadErrorWithClusterBreakingPotential", "true")
		}
		if err := r.Do(t.Context()).Error(); !apierrors.IsTimeout(err) {
			t.Errorf("%s: %v", verb, err)
		}
		await(t, "the webhook is asked", h.asked)
		await(t, "the call ends", h.left)
	}
	if _, err := c.client.Resource(things("v1", "things")).Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// patience is how long a test waits for what should happen at once: less than a conversion may take.
const patience = 20 * time.Second

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("it does not come to it that %s", what)
	}
}
