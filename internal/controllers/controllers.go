// Package controllers has the controllers that run inside the server, so that an API
// server without kube-controller-manager behaves as its users expect: a deleted
// namespace is emptied and removed, every namespace has its default service account,
// quotas show their usage, the roles view, edit and admin include the rules of
// aggregated roles, the status of admission policies shows type errors, and stored objects are migrated.
//
// They follow views, and write through the in-process door as the service accounts
// of kube-controller-manager's controllers: with the same authorization, admission
// and audit.
package controllers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/controllers/garbagecollector"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// Config has the dependencies and settings of controllers.
type Config struct {
	// Door is for the writes of controllers, each as its service account.
	Door *inprocess.Door
	// Endpoints returns all endpoints that are served now.
	Endpoints func() []*engine.Endpoint
	// Remotes returns the current groups and versions of extension servers.
	Remotes func() iter.Seq[*catalog.Remote]
	// Schema returns the OpenAPI schema of a kind, without references; nil: it has
	// none.
	Schema func(kind schema.GroupVersionKind) (*spec.Schema, error)
	// Store has the stored objects, and Catalog the served resources.
	Store   *store.Cluster
	Catalog *catalog.Live
	// Objects and Marks are used for counting the usage of quotas.
	Objects admission.Objects
	Marks   Marks
	// RootCA is the authority of serving certificates, in PEM; nil: it is not
	// published.
	RootCA []byte
	// Authority signs certificates; nil: they are not signed.
	Authority *pki.Authority
	// Tokens signs legacy service account tokens; nil: they are not signed.
	Tokens *serviceaccount.Signer
	// Gates are the feature gates that some controllers are for.
	Gates features.Set
	// Election elects the server that runs the controllers; nil: this one always
	// runs them.
	Election *Election
	// Coordinated elects the server that elects the leaders of others; nil: none does.
	Coordinated *Election
	// Queues measures the queues of controllers; nil: nothing does.
	Queues *queue.Metrics
	Clock  clock.WithTickerAndDelayedExecution
	Guard  *guard.Guard
	Log    *slog.Logger
}

// controller is one controller.
type controller struct {
	// name is its name in kube-controller-manager, alias its short name there.
	name, alias string
	// account is its service account, the same as in kube-controller-manager and
	// the bootstrap policy; "": it acts as kube-controller-manager itself.
	account string
	// run runs until its context ends.
	run func(ctx context.Context, c Config, client *inprocess.Client)
	// of are the kinds without whose objects it has nothing to do: it runs from the first one on. None: it always runs.
	of []schema.GroupResource
}

var (
	signingRequests = []schema.GroupResource{{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}}
	secrets         = []schema.GroupResource{{Resource: "secrets"}}
)

// all controllers.
var all = []controller{
	{"namespace-controller", "namespace", "namespace-controller", runNamespaces, nil},
	{"garbage-collector-controller", "garbagecollector", "generic-garbage-collector", runGarbageCollector, nil},
	{"serviceaccount-controller", "serviceaccount", "service-account-controller", runServiceAccounts, nil},
	{"resourcequota-controller", "resourcequota", "resourcequota-controller", runResourceQuotas, []schema.GroupResource{{Resource: "resourcequotas"}}},
	{"clusterrole-aggregation-controller", "clusterrole-aggregation", "clusterrole-aggregation-controller", runAggregation, nil},
	{"validatingadmissionpolicy-status-controller", "validatingadmissionpolicy-status", "validatingadmissionpolicy-status-controller", runPolicyStatus, []schema.GroupResource{{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}}},
	{"root-ca-certificate-publisher-controller", "root-ca-cert-publisher", "root-ca-cert-publisher", runRootCA, nil},
	{"certificatesigningrequest-signing-controller", "csrsigning", "certificate-controller", runCSRSigning, signingRequests},
	{"certificatesigningrequest-approving-controller", "csrapproving", "certificate-controller", runCSRApproving, signingRequests},
	{"certificatesigningrequest-cleaner-controller", "csrcleaner", "certificate-controller", runCSRCleaner, signingRequests},
	{"podcertificaterequest-cleaner-controller", "", "podcertificaterequestcleaner", runPodCertificateCleaner, []schema.GroupResource{{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}}},
	{"kube-apiserver-serving-clustertrustbundle-publisher-controller", "", "kube-apiserver-serving-clustertrustbundle-publisher", runTrustBundle, nil},
	{"persistentvolumeclaim-protection-controller", "pvc-protection", "pvc-protection-controller", runClaimProtection, []schema.GroupResource{{Resource: "persistentvolumeclaims"}}},
	{"persistentvolume-protection-controller", "pv-protection", "pv-protection-controller", runVolumeProtection, []schema.GroupResource{{Resource: "persistentvolumes"}}},
	{"ttl-after-finished-controller", "ttl-after-finished", "ttl-after-finished-controller", runTTLAfterFinished, []schema.GroupResource{{Group: "batch", Resource: "jobs"}}},
	{"serviceaccount-token-controller", "serviceaccount-token", "", runTokens, secrets},
	{"token-cleaner-controller", "tokencleaner", "token-cleaner", runTokenCleaner, secrets},
	{"legacy-serviceaccount-token-cleaner-controller", "legacy-service-account-token-cleaner", "legacy-service-account-token-cleaner", runLegacyTokens, secrets},
	{"service-cidr-controller", "", "service-cidrs-controller", runServiceCIDRs, nil},
	{"volumeattributesclass-protection-controller", "", "volumeattributesclass-protection-controller", runAttributesClassProtection, []schema.GroupResource{{Group: "storage.k8s.io", Resource: "volumeattributesclasses"}}},
	{"storage-version-migrator-controller", "svm", "storage-version-migrator-controller", runMigrations, []schema.GroupResource{{Group: "storagemigration.k8s.io", Resource: "storageversionmigrations"}}},
	{"bootstrap-signer-controller", "bootstrapsigner", "bootstrap-signer", runBootstrapSigner, nil},
	{"storageversion-garbage-collector-controller", "storage-version-gc", "storage-version-garbage-collector", runStorageVersionCollector, []schema.GroupResource{{Group: "internal.apiserver.k8s.io", Resource: "storageversions"}}},
	{"podgroup-protection-controller", "", "podgroup-protection-controller", runPodGroupProtection, []schema.GroupResource{{Group: "scheduling.k8s.io", Resource: "podgroups"}}},
	{"resourcepoolstatusrequest-controller", "", "resourcepoolstatusrequest-controller", runPoolStatusRequests, []schema.GroupResource{{Group: "resource.k8s.io", Resource: "resourcepoolstatusrequests"}}},
}

// ValidNames returns an error for names in --controllers that kube-controller-manager does not have either.
func ValidNames(names []string) error {
	for _, n := range names {
		n = full(strings.TrimPrefix(n, "-"))
		if n == "*" || n == "" || slices.ContainsFunc(all, func(c controller) bool { return c.name == n }) ||
			slices.ContainsFunc(elsewhere, func(a absent) bool { return a.name == n }) {
			continue
		}
		return fmt.Errorf("there is no controller %q; there are %s, and for the sake of kube-controller-manager's users, without effect, %s",
			n, strings.Join(Names(), ", "), strings.Join(absentNames(), ", "))
	}
	return nil
}

// Names returns the names of all controllers.
func Names() []string {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.name
	}
	slices.Sort(names)
	return names
}

func full(name string) string {
	if name == "" {
		return ""
	}
	for _, c := range all {
		if c.alias == name {
			return c.name
		}
	}
	for _, a := range elsewhere {
		if a.alias == name {
			return a.name
		}
	}
	return name
}

// Enabled says whether names, as in --controllers, enable a controller.
func Enabled(name string, names []string) bool {
	on := false
	for _, n := range names {
		switch {
		case n == "*":
			on = true
		case full(n) == name:
			return true
		case full(strings.TrimPrefix(n, "-")) == name:
			return false
		}
	}
	return on
}

// Run runs the controllers that names enable, on one server of a cluster, until
// ctx ends.
func Run(ctx context.Context, c Config, names []string) {
	if by := c.Coordinated; by != nil {
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { RunCoordinated(ctx, c, by.Client, by) })
	}
	for name, why := range Absent(names) {
		c.Log.Warn("a controller that was asked for is not in kanzen; kube-controller-manager has it", "controller", name, "reason", why)
	}
	if c.Election == nil {
		run(ctx, c, names)
		return
	}
	c.Election.Lead(ctx, func(ctx context.Context) { run(ctx, c, names) })
}

func run(ctx context.Context, c Config, names []string) {
	var wg sync.WaitGroup
	later := &dormant{c: &c}
	for _, ctl := range all {
		if !Enabled(ctl.name, names) {
			continue
		}
		later.begin(ctl.of, func() {
			wg.Go(func() {
				client := c.Door.As(ctl.user(), "kanzen/"+ctl.name)
				c.Guard.Keep(ctx, ctl.name, func(ctx context.Context) { ctl.run(ctx, c, client) })
			})
		})
	}
	c.Guard.Keep(ctx, "controllers that wait", later.run)
	wg.Wait()
}

// user returns the user as which a controller acts.
func (c *controller) user() user.Info {
	if c.account == "" {
		return &user.DefaultInfo{Name: user.KubeControllerManager, Groups: []string{user.AllAuthenticated}}
	}
	return &user.DefaultInfo{
		Name:   "system:serviceaccount:kube-system:" + c.account,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", user.AllAuthenticated},
	}
}

func runGarbageCollector(ctx context.Context, c Config, cl *inprocess.Client) {
	garbagecollector.Run(ctx, garbagecollector.Config{Store: c.Store, Catalog: c.Catalog, Client: cl, Queues: c.Queues, Clock: c.Clock, Guard: c.Guard, Log: c.Log})
}

// endpoint returns the endpoint of a resource.
func (c *Config) endpoint(gr schema.GroupResource) *engine.Endpoint { return c.Catalog.Reach(gr) }

// source follows something until its context ends, and puts names into the
// controller's queue. It returns at once. It calls begun once it tells of every change from then on;
// it may do so again. It calls ended when it has ended, which may be before its context ends if what it follows is dropped.
type source func(ctx context.Context, q *queue.Queue, begun, ended func())

// follow is a source for an index: name returns what to look at after a change.
func follow[T engine.Object](x *store.Index[T], name func(c store.Change[T]) (string, bool)) source {
	return func(ctx context.Context, q *queue.Queue, begun, ended func()) {
		x.Join(ctx, ended, func(c store.Change[T]) {
			if n, ok := name(c); ok {
				q.Add(n)
			}
		}, func(int64) { begun() })
	}
}

// work follows sources and calls look for the names in the queue until ctx ends.
// It calls look again after the time that look returns; 0: only after a change.
// No look is before all sources have begun: a source is not told that something
// was deleted before, so who had seen it would never look again.
func (c *Config) work(ctx context.Context, name string, look func(ctx context.Context, name string) (again time.Duration, err error), sources ...source) {
	q := queue.New(name, c.Clock, c.Guard, c.Queues, c.Log)
	var following, begin sync.WaitGroup
	for _, s := range sources {
		begin.Add(1)
		begun := sync.OnceFunc(begin.Done)
		following.Add(1)
		s(ctx, q, begun, func() {
			begun()
			following.Done()
		})
	}
	begin.Wait()
	q.Run(ctx, workers, func(ctx context.Context, name string) error {
		again, err := look(ctx, name)
		if err == nil && again > 0 {
			q.AddAfter(name, again)
		}
		return err
	})
	following.Wait()
}

// workers is how many objects a controller looks at in parallel. Extension servers
// may be slow.
const workers = 5

// once adapts a look that is repeated only after changes.
func once(look func(ctx context.Context, name string) error) func(ctx context.Context, name string) (time.Duration, error) {
	return func(ctx context.Context, name string) (time.Duration, error) { return 0, look(ctx, name) }
}

// get returns an object as this server last saw it; ok is false if there is none.
func get[T engine.Object](ctx context.Context, x *store.Index[T], key string) (obj T, ok bool, err error) {
	obj, err = x.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return obj, false, nil
	}
	return obj, err == nil, err
}

// split returns the namespace and name in a key.
func split(key string) (namespace, name string) {
	namespace, name, _ = strings.Cut(key, "/")
	return namespace, name
}

// in returns the target for all objects of a namespace, and for new ones.
func in(ep *engine.Endpoint, namespace string) inprocess.Target {
	return inprocess.Target{Resource: ep.GVR, Namespace: namespace}
}

// at returns the target for writes to objects that exist, or to a subresource.
func at(ep *engine.Endpoint, subresource string) inprocess.Target {
	return inprocess.Target{Resource: ep.GVR, Subresource: subresource}
}

// ignoreMissing drops the error of a write to an object that is gone. A Conflict
// remains: another object has its name by now, or it has changed, so the
// controller has to look again.
func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
