package controllers

import (
	"context"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/admission/policy"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/queue"
	"github.com/kanzen-io/kanzen/internal/store"
)

// policyStatus is the field manager of what the controller writes.
const policyStatus = "validatingadmissionpolicy-status"

// runPolicyStatus writes into the status of each ValidatingAdmissionPolicy what
// is wrong with the types in its expressions.
func runPolicyStatus(ctx context.Context, c Config, cl *client) error {
	policies := endpoint(c.Endpoints(), admissionv1.GroupName, "validatingadmissionpolicies")
	checker := &policy.TypeChecker{Schema: c.Schema, Kinds: func(gvr schema.GroupVersionResource) (out []schema.GroupVersionKind) {
		for _, ep := range c.Endpoints() {
			if ep.GVR == gvr {
				out = append(out, ep.GVK)
			}
		}
		return out
	}}
	q := queue.New(policyStatus, c.Clock, c.Guard, c.Log)
	done := make(chan error, 1)
	go func() {
		done <- policies.View().Follow(ctx, store.Follow{Changed: func(i *store.Item) { q.Add(i.Name()) }})
	}()
	q.Run(ctx, func(ctx context.Context, name string) error { return checkPolicy(ctx, policies, checker, cl, name) })
	return <-done
}

func checkPolicy(ctx context.Context, policies *engine.Endpoint, checker *policy.TypeChecker, cl *client, name string) error {
	i, err := policies.View().Get(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	obj, err := policies.Decode(i)
	if err != nil {
		return err
	}
	p, ok := obj.(*admissionv1.ValidatingAdmissionPolicy)
	if !ok {
		return fmt.Errorf("%s is a %T", name, obj)
	}
	if p.Generation <= p.Status.ObservedGeneration {
		return nil
	}
	checking := map[string]any{}
	if found := checker.Check(p); len(found) > 0 {
		checking["expressionWarnings"] = found
	}
	err = cl.apply(ctx, collection(policies.GVR, "")+"/"+name+"/status", policyStatus, map[string]any{
		"apiVersion": policies.GVK.GroupVersion().String(), "kind": policies.GVK.Kind, "metadata": map[string]any{"name": name},
		"status": map[string]any{"observedGeneration": p.Generation, "typeChecking": checking},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
