package aggregator

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// own is the group and version of APIServices themselves. This server always serves it.
var own = apiregistrationv1.SchemeGroupVersion

// service is the index entry of an APIService. Local ones have no backend. It is immutable except for claim, which is the
// same for all states of a remote APIService.
type service struct {
	name string
	schema.GroupVersion
	uid                            types.UID
	revision                       int64
	groupPriority, versionPriority int32
	// managed is the label by which servers know the APIServices that they created.
	managed string
	// local means that this server serves the group and version.
	local bool
	// available is the stored condition; its zero value means that there is none yet.
	available apiregistrationv1.APIServiceCondition
	backend   *backend
	claim     *claim
}

// claim is the handler of a remote group and version. The catalog keeps it across changes of the APIService.
type claim struct {
	server  *Server
	service atomic.Pointer[service]
}

// backendKey is what APIServices have in common that are reached by the same connections.
type backendKey struct {
	namespace, name string
	port            int32
	insecure        bool
	authorities     string // the CA bundle
}

func (k backendKey) String() string {
	return k.namespace + "/" + net.JoinHostPort(k.name, strconv.Itoa(int(k.port)))
}

// newService reads the index entry off a stored APIService.
func (s *Server) newService(ctx context.Context, i *store.Item) (*registered, error) {
	a, err := engine.IndexOf[*apiregistrationv1.APIService](s.APIServices).Of(ctx, i)
	if err != nil {
		return nil, err
	}
	out := &service{
		name: i.Name(), GroupVersion: schema.GroupVersion{Group: a.Spec.Group, Version: a.Spec.Version}, uid: a.UID, revision: i.Rev,
		groupPriority: a.Spec.GroupPriorityMinimum, versionPriority: a.Spec.VersionPriority,
		managed: a.Labels[managedLabel], local: a.Spec.Service == nil,
	}
	if c := condition(a); c != nil {
		out.available = *c
		if isLocal(c) {
			out.available = local() // thousands share the texts
		}
	}
	if out.local {
		return &registered{service: out}, nil
	}
	key := backendKey{
		namespace: a.Spec.Service.Namespace, name: a.Spec.Service.Name, port: 443,
		insecure: a.Spec.InsecureSkipTLSVerify, authorities: string(a.Spec.CABundle),
	}
	if p := a.Spec.Service.Port; p != nil {
		key.port = *p
	}
	return &registered{out, key}, nil
}

// condition returns the Available condition of an APIService; nil if it has none.
func condition(a *apiregistrationv1.APIService) *apiregistrationv1.APIServiceCondition {
	for n := range a.Status.Conditions {
		if c := &a.Status.Conditions[n]; c.Type == apiregistrationv1.Available {
			return c
		}
	}
	return nil
}

// meta is what names the APIService in writes.
func (v *service) meta() *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Name: v.name, UID: v.uid, ResourceVersion: strconv.FormatInt(v.revision, 10)}
}

// isAvailable reports whether requests are passed on.
func (v *service) isAvailable() bool { return v.available.Status == apiregistrationv1.ConditionTrue }

// isChecked reports whether it is known if requests are passed on.
func (v *service) isChecked() bool { return v.available.Status != "" }

// remote returns the catalog's entry of a remote APIService with a discovery document.
func (v *service) remote(doc apidiscoveryv2.APIVersionDiscovery) *catalog.Remote {
	server := ""
	if v.backend != nil {
		server = v.backend.key.String()
	}
	return &catalog.Remote{
		Server:       server,
		GroupVersion: v.GroupVersion, GroupPriority: int(v.groupPriority), VersionPriority: int(v.versionPriority),
		Handler: v.claim, Discovery: doc, Dead: v.available.Status == apiregistrationv1.ConditionFalse,
	}
}

// unknown is the discovery document of an extension server that has not answered yet.
func unknown(version string) apidiscoveryv2.APIVersionDiscovery {
	return apidiscoveryv2.APIVersionDiscovery{Version: version, Freshness: apidiscoveryv2.DiscoveryFreshnessStale}
}
