//go:build linux

package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// crossplane has one image for its two programs; it has the definitions too, which an init container creates.
var crossplane = operator{
	name:     "crossplane",
	modules:  []module{{path: "github.com/crossplane/crossplane/v2@v2.0.2"}},
	programs: map[string]string{"crossplane": "./cmd/crossplane"},
	files:    map[string]string{"/crds": "cluster/crds", "/webhookconfigurations": "cluster/webhookconfigurations"},
	install:  installCrossplane,
	leftOut:  map[string]string{"packages": "they are images; so there are no functions, which a composition needs to make anything, and no providers"},
	steps: []step{
		{"its init container makes its definitions, and its authority for its webhook", crossplaneInitialized},
		{"a composite resource definition becomes a definition, and one for claims", definitionOffered},
		{"rights for the new kinds are added to those of its roles", rightsAggregated},
		{"a definition of two meanings is refused", definitionRefused},
		{"a composition gets a revision, and another when it changes", compositionRevised},
		{"a claim makes a composite resource and is bound to it", claimBound},
		{"the composite resource takes the composition, and says what it lacks", compositionSelected},
		{"a usage keeps an object from being deleted, until it goes", usageProtects},
		{"a claim that is deleted takes the composite resource along", claimGone},
		{"500 managed resource definitions become definitions that are served", managedActivated},
		{"objects of their kinds are written and read", managedUsed},
	},
}

const apiextensionsOf = "apiextensions.crossplane.io/v1"

func installCrossplane(ctx context.Context, w *world) error {
	manifests, err := w.chart(ctx, w.source+"/cluster/charts/crossplane", "crossplane", "crossplane-system", "")
	if err != nil {
		return err
	}
	if err := w.install(ctx, "crossplane-system", namespaceOf("crossplane-system")+namespaceOf("team")+manifests); err != nil {
		return err
	}
	return w.available(ctx, "crossplane-system")
}

func crossplaneInitialized(ctx context.Context, w *world) error {
	if err := w.until(ctx, key{"admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "crossplane-no-usages"}, hasAuthority); err != nil {
		return err
	}
	return w.until(ctx, key{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "compositions.apiextensions.crossplane.io"}, condition("Established", "True"))
}

const databases = `
apiVersion: apiextensions.crossplane.io/v1
kind: CompositeResourceDefinition
metadata: {name: xdatabases.example.org}
spec:
  group: example.org
  names: {kind: XDatabase, plural: xdatabases}
  claimNames: {kind: Database, plural: databases}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [size]
            properties: {size: {type: integer, minimum: 1}}`

func definitionOffered(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "", databases); err != nil {
		return err
	}
	if err := w.until(ctx, key{apiextensionsOf, "CompositeResourceDefinition", "xdatabases.example.org"}, both(condition("Established", "True"), condition("Offered", "True"))); err != nil {
		return err
	}
	for _, name := range []string{"xdatabases.example.org", "databases.example.org"} {
		if err := w.until(ctx, key{"apiextensions.k8s.io/v1", "CustomResourceDefinition", name}, condition("Established", "True")); err != nil {
			return err
		}
	}
	return nil
}

// rightsAggregated asks whether the rbac manager's roles got into the one that the controller manager aggregates.
func rightsAggregated(ctx context.Context, w *world) error {
	return w.until(ctx, key{"rbac.authorization.k8s.io/v1", "ClusterRole", "crossplane-admin"}, func(u *unstructured.Unstructured) error {
		rules, _, _ := unstructured.NestedSlice(u.Object, "rules")
		if !strings.Contains(fmt.Sprint(rules), "xdatabases") {
			return fmt.Errorf("its rules are %v", rules)
		}
		return nil
	})
}

func definitionRefused(ctx context.Context, w *world) error {
	return w.refused(ctx, "", strings.NewReplacer("crossplane.io/v1\n", "crossplane.io/v2\n", "xdatabases", "xothers", "XDatabase", "XOther", "databases", "others", "Database", "Other").Replace(databases),
		"Claims aren't supported")
}

const composition = `
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: small, labels: {tier: %s}}
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: XDatabase}
  mode: Pipeline
  pipeline: [{step: make, functionRef: {name: nobody}, input: {apiVersion: example.org/v1, kind: Input, tier: %s}}]`

func compositionRevised(ctx context.Context, w *world) error {
	for i, tier := range []string{"one", "two"} {
		if err := w.apply(ctx, "", fmt.Sprintf(composition, tier, tier)); err != nil {
			return err
		}
		if err := w.eventually(ctx, "revisions", func(ctx context.Context) error {
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion(apiextensionsOf)
			list.SetKind("CompositionRevisionList")
			if err := w.client.List(ctx, list, client.MatchingLabels{"crossplane.io/composition-name": "small"}); err != nil {
				return err
			}
			if len(list.Items) != i+1 {
				return fmt.Errorf("there are %d", len(list.Items))
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

var database = key{"example.org/v1", "Database", "team/main"}

// composite is the composite resource of the claim.
func (w *world) composite(ctx context.Context) (k key, err error) {
	u, err := w.get(ctx, database)
	if err != nil {
		return key{}, err
	}
	name, _, _ := unstructured.NestedString(u.Object, "spec", "resourceRef", "name")
	if name == "" {
		return key{}, errors.New("the claim has none")
	}
	return key{"example.org/v1", "XDatabase", name}, nil
}

func claimBound(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "team", "apiVersion: example.org/v1\nkind: Database\nmetadata: {name: main}\nspec: {size: 3}"); err != nil {
		return err
	}
	return w.eventually(ctx, "the composite resource", func(ctx context.Context) error {
		k, err := w.composite(ctx)
		if err != nil {
			return err
		}
		u, err := w.get(ctx, k)
		if err != nil {
			return err
		}
		return both(value("spec.claimRef.name", "main"), value("spec.size", 3))(u)
	})
}

func compositionSelected(ctx context.Context, w *world) error {
	k, err := w.composite(ctx)
	if err != nil {
		return err
	}
	return w.until(ctx, k, func(u *unstructured.Unstructured) error {
		if err := both(value("spec.compositionRef.name", "small"), condition("Synced", "False"))(u); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		if text := fmt.Sprint(conditions); !strings.Contains(text, "nobody") {
			return errors.New(text)
		}
		return nil
	})
}

func usageProtects(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "team", `
apiVersion: v1
kind: ConfigMap
metadata: {name: precious}
---
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: precious}
spec: {of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: precious}}, reason: it is precious}`); err != nil {
		return err
	}
	usage, used := key{"protection.crossplane.io/v1beta1", "Usage", "team/precious"}, key{"v1", "ConfigMap", "team/precious"}
	if err := w.until(ctx, usage, condition("Ready", "True")); err != nil {
		return err
	}
	if err := refusedWith(w.delete(ctx, used), "it is precious"); err != nil {
		return err
	}
	if err := w.delete(ctx, usage); err != nil {
		return err
	}
	if err := w.gone(ctx, usage); err != nil {
		return err
	}
	if err := w.eventually(ctx, "delete what is no longer used", func(ctx context.Context) error { return w.delete(ctx, used) }); err != nil {
		return err
	}
	return w.gone(ctx, used)
}

func claimGone(ctx context.Context, w *world) error {
	k, err := w.composite(ctx)
	if err != nil {
		return err
	}
	if err := w.delete(ctx, database); err != nil {
		return err
	}
	if err := w.gone(ctx, k); err != nil {
		return err
	}
	return w.gone(ctx, database)
}

// managedCount is how many managed resource definitions there are to be. The corpus has those of a provider; the rest are the same in another group.
const managedCount = 500

// managed returns definitions of the provider for AWS as managed resource definitions, which its package would have.
func managed() ([]*unstructured.Unstructured, error) {
	f, err := os.Open("testdata/manifests/crossplane-provider-aws/00-crds.yaml.gz")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(zipped)
	if err != nil {
		return nil, err
	}
	objects, err := read(string(text))
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for n := 0; len(all) < managedCount; n++ {
		for _, o := range objects[:min(len(objects), managedCount-len(all))] {
			o = o.DeepCopy()
			spec := o.Object["spec"].(map[string]any)
			if n > 0 {
				spec["group"] = fmt.Sprintf("copy%d.%s", n, spec["group"])
				o.SetName(fmt.Sprintf("%s.%s", spec["names"].(map[string]any)["plural"], spec["group"]))
			}
			o.SetAPIVersion("apiextensions.crossplane.io/v1alpha1")
			o.SetKind("ManagedResourceDefinition")
			all = append(all, o)
		}
	}
	return all, nil
}

func managedActivated(ctx context.Context, w *world) error {
	all, err := managed()
	if err != nil {
		return err
	}
	for _, o := range all {
		if err := w.client.Create(ctx, o); err != nil {
			return fmt.Errorf("create %s: %w", o.GetName(), err)
		}
	}
	return w.eventually(ctx, "the definitions", func(ctx context.Context) error {
		served := 0
		_, lists, err := w.kube.Discovery().ServerGroupsAndResources()
		if err != nil {
			return err
		}
		for _, list := range lists {
			if !strings.Contains(list.GroupVersion, "aws.") {
				continue
			}
			for _, r := range list.APIResources {
				if !strings.Contains(r.Name, "/") {
					served++
				}
			}
		}
		if served < managedCount {
			select { // discovery is large
			case <-ctx.Done():
			case <-time.After(3 * time.Second):
			}
			return fmt.Errorf("%d of %d are served", served, managedCount)
		}
		return nil
	})
}

func managedUsed(ctx context.Context, w *world) error {
	all, err := managed()
	if err != nil {
		return err
	}
	for _, o := range []*unstructured.Unstructured{all[0], all[len(all)-1]} {
		spec := o.Object["spec"].(map[string]any)
		version, _, _ := unstructured.NestedString(spec["versions"].([]any)[0].(map[string]any), "name")
		kind, _, _ := unstructured.NestedString(spec, "names", "kind")
		name := "thing"
		if spec["scope"] == "Namespaced" {
			name = "team/thing"
		}
		k := key{fmt.Sprintf("%s/%s", spec["group"], version), kind, name}
		u := k.named()
		// What is only observed needs none of the fields that differ from kind to kind.
		u.Object["spec"] = map[string]any{"managementPolicies": []any{"Observe"}, "forProvider": map[string]any{"region": "here"}}
		if err := w.client.Create(ctx, u); err != nil {
			return fmt.Errorf("create %s: %w", k, err)
		}
		if err := w.until(ctx, k, value("spec.forProvider.region", "here")); err != nil {
			return err
		}
		if err := w.delete(ctx, k); err != nil {
			return err
		}
		if err := w.gone(ctx, k); err != nil {
			return err
		}
	}
	return nil
}
