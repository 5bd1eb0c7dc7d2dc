package controllers

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kanzen-io/kanzen/internal/access/authz/bootstrap"
	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// aggregationManager owns the rules of aggregated roles.
const aggregationManager = "clusterrole-aggregation-controller"

// runAggregation writes the rules of cluster roles with an aggregation rule:
// the union of the rules of the roles that it selects. So view, edit and admin
// include the permissions for custom kinds.
func runAggregation(ctx context.Context, c Config, cl *inprocess.Client) {
	ep := c.endpoint(rbacv1.Resource("clusterroles"))
	a := &aggregator{endpoint: ep, roles: engine.IndexOf[*rbacv1.ClusterRole](ep), client: cl.Managing(aggregationManager), outlines: map[string]outline{}}
	// Any aggregated role may select a changed role, so all are checked
	// together, under one name.
	c.work(ctx, "clusterrole-aggregation", once(a.look), a.follow)
}

type aggregator struct {
	endpoint *engine.Endpoint
	roles    *store.Index[*rbacv1.ClusterRole]
	client   *inprocess.Client

	mu sync.Mutex
	// outlines has what tells which roles matter, of each role by name; guarded by mu. The roles are read when they are
	// compared: kept in memory, they would be a tenth of an empty server.
	outlines map[string]outline
	// complete says that outlines has all roles. Before, a comparison would take rules away.
	complete bool // guarded by mu
}

// outline is what is known of a role.
type outline struct {
	labels     labels.Set
	aggregated bool
	broken     error // a selector of its aggregation rule cannot be read
}

// follow is the source of the controller's queue.
func (a *aggregator) follow(ctx context.Context, q *queue.Queue, begun, ended func()) {
	a.roles.Join(ctx, ended, func(c store.Change[*rbacv1.ClusterRole]) {
		if a.changed(c) {
			q.Add("")
		}
	}, func(int64) {
		if a.caught() {
			q.Add("")
		}
		begun()
	})
}

// changed notes a change of a role, and returns whether all roles are known.
func (a *aggregator) changed(c store.Change[*rbacv1.ClusterRole]) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.Gone || c.Err != nil {
		delete(a.outlines, c.Key)
		return a.complete
	}
	o := outline{labels: c.Now.Labels, aggregated: c.Now.AggregationRule != nil}
	_, o.broken = bootstrap.Selectors(c.Now)
	a.outlines[c.Key] = o
	return a.complete
}

// caught notes that all roles are known, and returns whether that is new.
func (a *aggregator) caught() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.complete
	a.complete = true
	return !was
}

func (a *aggregator) look(ctx context.Context, _ string) error {
	a.mu.Lock()
	all := maps.Clone(a.outlines)
	a.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		o := all[name]
		errs = append(errs, o.broken)
		if o.aggregated && o.broken == nil {
			errs = append(errs, a.aggregate(ctx, name, all))
		}
	}
	return errors.Join(errs...)
}

// aggregate brings one role up to date. It applies the rules, so that it owns
// only them and not labels and selectors.
//
// Rules are permissions, so outlines only say which roles to read: the roles may
// have changed since, or be others of the same name.
func (a *aggregator) aggregate(ctx context.Context, name string, all map[string]outline) error {
	role, err := a.roles.Peek(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	selectors, err := bootstrap.Selectors(role)
	if err != nil || role.AggregationRule == nil {
		return err
	}
	var selected []*rbacv1.ClusterRole
	for from, o := range all {
		if !slices.ContainsFunc(selectors, func(s labels.Selector) bool { return s.Matches(o.labels) }) {
			continue
		}
		switch r, err := a.roles.Peek(ctx, from); {
		case err == nil:
			selected = append(selected, r)
		case !errors.Is(err, store.ErrNotFound):
			return err
		}
	}
	rules, err := bootstrap.Aggregate(role, selected)
	if err != nil || equality.Semantic.DeepEqual(rules, role.Rules) {
		return err
	}
	if rules == nil {
		rules = []rbacv1.PolicyRule{}
	}
	return ignoreMissing(a.client.Apply(ctx, at(a.endpoint, ""), request.Unchanged(role), struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]string   `json:"metadata"`
		Rules           []rbacv1.PolicyRule `json:"rules"`
	}{metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"}, map[string]string{"name": role.Name}, rules}))
}
