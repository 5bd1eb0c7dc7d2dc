package server

import (
	"context"
	"crypto/tls"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kanzen-io/kanzen/internal/access/audit"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/observe/findings"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/process/keys"
)

// ExportsPath is where Seams.Exports is.
const ExportsPath = "/exports"

// Planes tell of control planes below another one, and of the servers that share them.
type Planes interface {
	// Stats and Servers tell the flight recorder's readers what these do now. They may ask the other servers.
	Stats() []*v1alpha1.PlaneStat
	Servers() []*v1alpha1.PlaneServer
	// State is what this server knows without asking; nil: there are no other servers.
	State() *findings.Fleet
}

// Seams are where a program that holds a control plane, such as a test, takes part in it. The zero value is none: the
// filters are left out of the chain.
type Seams struct {
	// Observe is a filter around all requests, also those that are refused. It knows what is requested (request.Info),
	// not yet by whom.
	Observe chain.Filter
	// Intervene is a filter of requests whose user is known, before they are authorized.
	Intervene chain.Filter
	// Webhook returns a transport to a webhook in this process, by the host and port that its configuration names
	// ("NAME.NAMESPACE.svc:443" for a service); nil: it is reached over the network. Optional.
	Webhook func(host string) http.RoundTripper
	// Keys brings the keys, at each start; nil: they are loaded as the settings say. Optional.
	Keys func(ctx context.Context) (*keys.Keys, error)
	// Made says that the first objects are there, as an earlier start in this process has seen: none of them is looked for.
	Made bool
	// Auditor brings what makes the audit events, at each start, nil if they are not recorded; the caller closes its backend. Nil: it is
	// made as the settings of the process say. Optional.
	Auditor func() *audit.Auditor
	// Planes are those below this control plane; nil: it has none.
	Planes Planes
	// Kinds are kinds that the control plane has beside the built-in ones: definitions that are no objects of the API. Optional.
	Kinds []*apiextensionsv1.CustomResourceDefinition
	// Common has objects that other control planes with the same settings have too; nil: there are none.
	Common *engine.Common
	// Admit are plugins of admission that come after all others. Optional.
	Admit admission.Chain
	// Exports answers requests at ExportsPath and below, of users who may make them; nil: there is no such page.
	Exports func(w http.ResponseWriter, r *http.Request) error
	// Transfers answers requests for subresources of Planes that are streams, of users who may make them; served is false if a request is
	// none of those. Optional.
	Transfers func(w http.ResponseWriter, r *http.Request) (served bool)
	// Certificate is the certificate that is shown to a client; nil: that of the settings. Optional.
	Certificate func(*tls.ClientHelloInfo) *tls.Certificate
	// Front is around the chain on the port: it answers requests that are for others, and passes the rest. Optional.
	Front func(http.Handler) http.Handler

	// origin is what a fork has of the control plane that it was made of; nil: it is none.
	origin *origin
}
