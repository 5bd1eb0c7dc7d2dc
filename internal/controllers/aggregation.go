package controllers

import (
	"context"
	"errors"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/authz/bootstrap"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/queue"
	"github.com/kanzen-io/kanzen/internal/store"
)

// aggregationManager owns the rules of aggregated roles.
const aggregationManager = "clusterrole-aggregation-controller"

// runAggregation gives the cluster roles that have an aggregation rule the
// rules of those that it selects: view, edit and admin gather what the kinds
// of a cluster offer to their users.
func runAggregation(ctx context.Context, c Config, cl *client) error {
	a := &aggregator{roles: endpoint(c.Endpoints(), rbacv1.GroupName, "clusterroles"), client: cl}
	q := queue.New("clusterrole-aggregation", c.Clock, c.Guard, c.Log)
	// Whatever changes may be selected by any, so all are looked at, as one.
	all := func(*store.Item) { q.Add("") }
	done := make(chan error, 1)
	go func() { done <- a.roles.View().Follow(ctx, store.Follow{Changed: all, Gone: all}) }()
	q.Run(ctx, func(ctx context.Context, _ string) error { return a.look(ctx) })
	return <-done
}

type aggregator struct {
	roles  *engine.Endpoint
	client *client
}

func (a *aggregator) look(ctx context.Context) error {
	snapshot, err := a.roles.View().Snapshot(ctx)
	if err != nil {
		return err
	}
	var roles []*rbacv1.ClusterRole
	err = snapshot.Ascend(ctx, store.Range{}, func(i *store.Item) bool {
		if obj, err := a.roles.Decode(i); err == nil { // one that cannot be read gives no rules
			roles = append(roles, obj.(*rbacv1.ClusterRole))
		}
		return true
	})
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

// aggregate brings one role up to date. It owns the rules only, by applying
// them: labels and selectors are others'.
func (a *aggregator) aggregate(ctx context.Context, role *rbacv1.ClusterRole, all []*rbacv1.ClusterRole) error {
	rules, err := bootstrap.Aggregate(role, all)
	if err != nil || equality.Semantic.DeepEqual(rules, role.Rules) {
		return err
	}
	if rules == nil {
		rules = []rbacv1.PolicyRule{}
	}
	return ignoreMissing(a.client.apply(ctx, collection(a.roles.GVR, "")+"/"+role.Name, aggregationManager, struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]string   `json:"metadata"`
		Rules           []rbacv1.PolicyRule `json:"rules"`
	}{metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"}, map[string]string{"name": role.Name}, rules}))
}
