package controllers

import (
	"context"
	"errors"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/admission/policy"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// policyStatus is the field manager of the controller.
const policyStatus = "validatingadmissionpolicy-status"

// runPolicyStatus writes the type errors in the expressions of each
// ValidatingAdmissionPolicy into its status.
func runPolicyStatus(ctx context.Context, c Config, cl *inprocess.Client) {
	ep := c.endpoint(admissionv1.Resource("validatingadmissionpolicies"))
	k := &policyChecker{
		endpoint: ep, policies: engine.IndexOf[*admissionv1.ValidatingAdmissionPolicy](ep), client: cl.Managing(policyStatus),
		checker: &policy.TypeChecker{Schema: c.Schema, Kinds: func(gvr schema.GroupVersionResource) (out []schema.GroupVersionKind) {
			for _, ep := range c.Endpoints() {
				if ep.GVR == gvr {
					out = append(out, ep.GVK)
				}
			}
			return out
		}},
	}
	c.work(ctx, policyStatus, once(k.check), follow(k.policies, func(c store.Change[*admissionv1.ValidatingAdmissionPolicy]) (string, bool) {
		return c.Name(), !c.Gone
	}))
}

type policyChecker struct {
	endpoint *engine.Endpoint
	policies *store.Index[*admissionv1.ValidatingAdmissionPolicy]
	client   *inprocess.Client
	checker  *policy.TypeChecker
}

func (k *policyChecker) check(ctx context.Context, name string) error {
	p, err := k.policies.Get(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if p.Generation <= p.Status.ObservedGeneration {
		return nil
	}
	checking := map[string]any{}
	if found := k.checker.Check(p); len(found) > 0 {
		checking["expressionWarnings"] = found
	}
	return ignoreMissing(k.client.Apply(ctx, at(k.endpoint, "status"), request.Same(p), map[string]any{
		"apiVersion": k.endpoint.GVK.GroupVersion().String(), "kind": k.endpoint.GVK.Kind, "metadata": map[string]any{"name": name},
		"status": map[string]any{"observedGeneration": p.Generation, "typeChecking": checking},
	}))
}
