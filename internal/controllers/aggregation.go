package controllers

import (
	"context"
	"errors"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/authz/bootstrap"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/inprocess"
	"github.com/kanzen-io/kanzen/internal/store"
)

// aggregationManager owns the rules of aggregated roles.
const aggregationManager = "clusterrole-aggregation-controller"

// runAggregation writes the rules of cluster roles with an aggregation rule:
// the union of the rules of the roles that it selects. So view, edit and admin
// include the permissions for custom kinds.
func runAggregation(ctx context.Context, c Config, cl *inprocess.Client) {
	ep := c.endpoint(rbacv1.Resource("clusterroles"))
	a := &aggregator{endpoint: ep, roles: engine.IndexOf[*rbacv1.ClusterRole](ep), client: cl.Managing(aggregationManager)}
	// Any aggregated role may select a changed role, so all are checked
	// together, under one name.
	c.work(ctx, "clusterrole-aggregation", once(a.look), follow(a.roles, func(store.Change[*rbacv1.ClusterRole]) (string, bool) { return "", true }))
}

type aggregator struct {
	endpoint *engine.Endpoint
	roles    *store.Index[*rbacv1.ClusterRole]
	client   *inprocess.Client
}

func (a *aggregator) look(ctx context.Context, _ string) error {
	roles, err := a.roles.Objects(ctx, "")
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range roles {
		if r.AggregationRule != nil {
			errs = append(errs, a.aggregate(ctx, r, roles))
		}
	}
	return errors.Join(errs...)
}

// aggregate brings one role up to date. It applies the rules, so that it owns
// only them and not labels and selectors.
func (a *aggregator) aggregate(ctx context.Context, role *rbacv1.ClusterRole, all []*rbacv1.ClusterRole) error {
	rules, err := bootstrap.Aggregate(role, all)
	if err != nil || equality.Semantic.DeepEqual(rules, role.Rules) {
		return err
	}
	if rules == nil {
		rules = []rbacv1.PolicyRule{}
	}
	return ignoreMissing(a.client.Apply(ctx, target(a.endpoint, "", role.Name, ""), struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]string   `json:"metadata"`
		Rules           []rbacv1.PolicyRule `json:"rules"`
	}{metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"}, map[string]string{"name": role.Name}, rules}))
}
