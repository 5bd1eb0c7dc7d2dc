// Package plugin assembles the admission chain: kube-apiserver's plugins, in
// its order, enabled and disabled by the same settings.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/always"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/alwayspullimages"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/antiaffinity"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/csr"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/defaultclass"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/defaulttolerationseconds"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/denyexternalips"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/eventratelimit"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/extendedresourcetoleration"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/imagepolicy"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/limitranger"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/namespacelifecycle"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/namespaces"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/noderestriction"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/nodetaint"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/ownerreferences"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/podnodeselector"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/podresize"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/podsecurity"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/podtolerationrestriction"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/podtopologylabels"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/priority"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/pvcresize"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/resourcequota"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/runtimeclass"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/storageprotection"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

// Deps are the dependencies of plugins. All fields are required except where
// noted.
type Deps struct {
	Objects    admission.Objects
	Authorizer authz.Authorizer
	// CreateNamespace makes a namespace, for NamespaceAutoProvision.
	CreateNamespace func(ctx context.Context, name string) error
	// Resources finds the resources of a kind, for
	// OwnerReferencesPermissionEnforcement.
	Resources ownerreferences.Resources
	// NameSuffix makes the suffixes of generated names.
	NameSuffix func() string
	Clock      clock.Clock
	// Gates says which features are on.
	Gates features.Set
	// NotReadySeconds and UnreachableSeconds are the values of
	// --default-not-ready-toleration-seconds and
	// --default-unreachable-toleration-seconds.
	NotReadySeconds, UnreachableSeconds int64
	// Config holds the configurations of plugins by their names, as ReadConfig
	// returns them. Optional.
	Config map[string][]byte
	// Others are plugins that are made elsewhere (webhooks and policies), by
	// their names. One that is missing is left out. Optional.
	Others map[string]admission.Plugin
	// Registry gets the metrics of plugins. Optional.
	Registry prometheus.Registerer
}

// entry is a plugin's place in the order.
type entry struct {
	name string
	on   bool // by default
	// make makes the plugin. Nil: it is taken from Deps.Others, if it is there.
	make func(d *Deps) (admission.Plugin, error)
}

// order lists all plugins in the order in which they run: first those that
// change objects, and at the end those that must see the final object.
var order = []entry{
	{always.AdmitName, false, is(func(*Deps) admission.Plugin { return always.Admit() })},
	{namespaces.AutoProvisionName, false, is(func(d *Deps) admission.Plugin { return namespaces.AutoProvision(d.Objects, d.CreateNamespace) })},
	{namespacelifecycle.Name, true, is(func(d *Deps) admission.Plugin { return namespacelifecycle.New(d.Objects) })},
	{namespaces.ExistsName, false, is(func(d *Deps) admission.Plugin { return namespaces.Exists(d.Objects) })},
	{antiaffinity.Name, false, is(func(*Deps) admission.Plugin { return antiaffinity.New() })},
	{limitranger.Name, true, is(func(d *Deps) admission.Plugin { return limitranger.New(d.Objects) })},
	{serviceaccount.Name, true, is(func(d *Deps) admission.Plugin { return serviceaccount.New(d.Objects, d.NameSuffix, d.Clock) })},
	{noderestriction.Name, false, is(func(d *Deps) admission.Plugin { return noderestriction.New(d.Objects, d.Authorizer, d.Gates) })},
	{nodetaint.Name, true, is(func(*Deps) admission.Plugin { return nodetaint.New() })},
	{alwayspullimages.Name, false, is(func(*Deps) admission.Plugin { return alwayspullimages.New() })},
	{imagepolicy.Name, false, func(d *Deps) (admission.Plugin, error) {
		return imagepolicy.New(d.Clock, d.Config[imagepolicy.Name])
	}},
	{podsecurity.Name, true, func(d *Deps) (admission.Plugin, error) {
		return podsecurity.New(d.Objects, d.Config[podsecurity.Name], d.Registry)
	}},
	{podnodeselector.Name, false, func(d *Deps) (admission.Plugin, error) {
		return podnodeselector.New(d.Objects, d.Config[podnodeselector.Name])
	}},
	{priority.Name, true, is(func(d *Deps) admission.Plugin { return priority.New(d.Objects, d.Gates) })},
	{defaulttolerationseconds.Name, true, is(func(d *Deps) admission.Plugin {
		return defaulttolerationseconds.New(d.NotReadySeconds, d.UnreachableSeconds)
	})},
	{podtolerationrestriction.Name, false, func(d *Deps) (admission.Plugin, error) {
		return podtolerationrestriction.New(d.Objects, d.Config[podtolerationrestriction.Name])
	}},
	{eventratelimit.Name, false, func(d *Deps) (admission.Plugin, error) {
		return eventratelimit.New(d.Clock, d.Config[eventratelimit.Name])
	}},
	{extendedresourcetoleration.Name, false, is(func(*Deps) admission.Plugin { return extendedresourcetoleration.New() })},
	{defaultclass.StorageName, true, is(func(d *Deps) admission.Plugin { return defaultclass.Storage(d.Objects) })},
	{storageprotection.Name, true, is(func(*Deps) admission.Plugin { return storageprotection.New() })},
	{storageprotection.PodGroupName, true, is(func(*Deps) admission.Plugin { return storageprotection.PodGroups() })},
	{ownerreferences.Name, false, is(func(d *Deps) admission.Plugin { return ownerreferences.New(d.Authorizer, d.Resources) })},
	{pvcresize.Name, true, is(func(d *Deps) admission.Plugin { return pvcresize.New(d.Objects) })},
	{runtimeclass.Name, true, is(func(d *Deps) admission.Plugin { return runtimeclass.New(d.Objects) })},
	{csr.ApprovalName, true, is(func(d *Deps) admission.Plugin { return csr.Approval(d.Authorizer) })},
	{csr.SigningName, true, is(func(d *Deps) admission.Plugin { return csr.Signing(d.Authorizer) })},
	{csr.AttestName, true, is(func(d *Deps) admission.Plugin { return csr.Attest(d.Authorizer) })},
	{csr.SubjectName, true, is(func(*Deps) admission.Plugin { return csr.Subject() })},
	{defaultclass.IngressName, true, is(func(d *Deps) admission.Plugin { return defaultclass.Ingress(d.Objects) })},
	{denyexternalips.Name, false, is(func(*Deps) admission.Plugin { return denyexternalips.New() })},
	{podtopologylabels.Name, true, is(func(d *Deps) admission.Plugin { return podtopologylabels.New(d.Objects, d.Gates) })},
	{podresize.FeaturesName, true, is(func(d *Deps) admission.Plugin { return podresize.Features(d.Objects) })},
	{podresize.ResizeName, true, is(func(d *Deps) admission.Plugin { return podresize.Resize(d.Objects) })},
	{"MutatingAdmissionPolicy", true, nil},
	{"MutatingAdmissionWebhook", true, nil},
	{"ValidatingAdmissionPolicy", true, nil},
	{"ValidatingAdmissionWebhook", true, nil},
	{resourcequota.Name, true, func(d *Deps) (admission.Plugin, error) {
		return resourcequota.New(d.Objects, d.Clock, d.Config[resourcequota.Name])
	}},
	{always.DenyName, false, is(func(*Deps) admission.Plugin { return always.Deny() })},
}

// is adapts a constructor that cannot fail.
func is(f func(d *Deps) admission.Plugin) func(d *Deps) (admission.Plugin, error) {
	return func(d *Deps) (admission.Plugin, error) { return f(d), nil }
}

// Chain makes the enabled plugins: those enabled by default that disable does
// not name, and those that enable names.
func Chain(d Deps, enable, disable []string) (admission.Chain, error) {
	if err := checkNames(enable, disable); err != nil {
		return nil, err
	}
	var chain admission.Chain
	for _, e := range order {
		if !e.enabled(enable, disable) {
			continue
		}
		if e.make == nil {
			if p, ok := d.Others[e.name]; ok {
				chain = append(chain, p)
			}
			continue
		}
		p, err := e.make(&d)
		if err != nil {
			return nil, err
		}
		chain = append(chain, p)
	}
	return chain, nil
}

func (e *entry) enabled(enable, disable []string) bool {
	return slices.Contains(enable, e.name) || e.on && !slices.Contains(disable, e.name)
}

// Enabled says whether a plugin is: one that is not need not be made, and its configuration is not looked at.
func Enabled(name string, enable, disable []string) bool {
	return slices.ContainsFunc(order, func(e entry) bool { return e.name == name && e.enabled(enable, disable) })
}

// Names returns the names of all plugins, in their order.
func Names() []string {
	names := make([]string, len(order))
	for i, e := range order {
		names[i] = e.name
	}
	return names
}

func checkNames(enable, disable []string) error {
	var errs []error
	known := Names()
	for _, flag := range []struct {
		name   string
		values []string
	}{{"enable-admission-plugins", enable}, {"disable-admission-plugins", disable}} {
		for _, v := range flag.values {
			if !slices.Contains(known, v) {
				errs = append(errs, fmt.Errorf("--%s: plugin %q is unknown", flag.name, v))
			}
		}
	}
	for _, v := range enable {
		if slices.Contains(disable, v) {
			errs = append(errs, fmt.Errorf("--enable-admission-plugins and --disable-admission-plugins both name %q", v))
		}
	}
	return errors.Join(errs...)
}
