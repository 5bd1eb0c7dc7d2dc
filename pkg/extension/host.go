package extension

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authn"
	tokenreview "github.com/kanzen-io/kanzen/internal/access/authn/webhook"
	"github.com/kanzen-io/kanzen/internal/access/authz"
	accessreview "github.com/kanzen-io/kanzen/internal/access/authz/webhook"
	"github.com/kanzen-io/kanzen/internal/wire/remote"
)

const (
	// rememberReviews is how long answers of the host cluster are remembered.
	rememberReviews = 10 * time.Second
	// hostTimeout bounds a request to the host cluster; hostWait is how long the start waits for it.
	hostTimeout, hostWait = 10 * time.Second, 30 * time.Second
	// authInfoEvery is how often the authorities of the host cluster are read again.
	authInfoEvery = time.Minute
	authInfoPath  = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
)

// host is the cluster that the server belongs to. It says who sends requests, and what they may do.
type host struct {
	http    *http.Client
	config  *rest.Config
	tokens  authn.Tokens
	clock   clock.Clock
	log     *slog.Logger
	access  authz.Authorizer
	current atomic.Pointer[authn.Authenticator] // by the authorities as read last
	known   map[string]string                   // the data that current is made of; used by one goroutine
}

// hostConfig is how the host cluster is reached: as settings say, or as a pod of it.
func hostConfig(o *Options) (*rest.Config, error) {
	switch {
	case o.Host != nil:
		return o.Host, nil
	case o.Kubeconfig != "":
		return clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	}
	c, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("the host cluster: a kubeconfig is needed outside of it (%w)", err)
	}
	return c, nil
}

func newHost(c *rest.Config, r prometheus.Registerer, clk clock.Clock, log *slog.Logger) (*host, error) {
	c = rest.CopyConfig(c)
	c.Timeout = hostTimeout
	h := &host{config: c, clock: clk, log: log}
	var err error
	if h.http, err = rest.HTTPClientFor(c); err != nil {
		return nil, err
	}
	tokens, err := remote.New(c, "/apis/authentication.k8s.io/v1/tokenreviews", hostTimeout)
	if err != nil {
		return nil, err
	}
	access, err := remote.New(c, "/apis/authorization.k8s.io/v1/subjectaccessreviews", hostTimeout)
	if err != nil {
		return nil, err
	}
	retry := remote.DefaultRetry(clk)
	h.tokens.Authenticators = []authn.TokenAuthenticator{authn.Cached(
		&tokenreview.Authenticator{Client: tokens, Version: "v1", Retry: retry, Log: log},
		authn.CacheConfig{Success: rememberReviews, Failure: rememberReviews, Clock: clk, Metrics: authn.NewCacheMetrics(r)})}
	review, err := accessreview.New(accessreview.Config{Name: "kubernetes.io/webhook", Client: access, Version: "v1",
		AuthorizedTTL: rememberReviews, UnauthorizedTTL: rememberReviews, OnError: authz.NoOpinion,
		Retry: retry, Clock: clk, Metrics: accessreview.NewMetrics(r), Log: log})
	if err != nil {
		return nil, err
	}
	h.access = authz.Union{{Name: "kubernetes.io/always-allow-groups", Authorizer: authz.Masters{}}, {Name: "kubernetes.io/always-allow-paths", Authorizer: healthForAll{}}, {Name: "kubernetes.io/webhook", Authorizer: review}}
	return h, nil
}

// healthForAll lets everybody ask for health, so that kubelets can.
type healthForAll struct{}

// Authorize has an opinion only on health.
func (healthForAll) Authorize(_ context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	root, _, _ := strings.Cut(strings.TrimPrefix(a.Path, "/"), "/")
	if !a.IsResource && slices.Contains([]string{"healthz", "livez", "readyz"}, root) {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "", nil
}

// Authenticate is part of authn.Authenticator.
func (h *host) Authenticate(r *http.Request) (user.Info, bool, error) {
	return (*h.current.Load()).Authenticate(r)
}

// begin reads the authorities, again while the host cluster is starting.
func (h *host) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hostWait)
	defer cancel()
	for {
		err := h.read(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-h.clock.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("how the host cluster authenticates: %w", err)
		}
	}
}

// run reads the authorities again until ctx ends: they change.
func (h *host) run(ctx context.Context) {
	for {
		select {
		case <-h.clock.After(authInfoEvery):
		case <-ctx.Done():
			return
		}
		if err := h.read(ctx); err != nil && ctx.Err() == nil {
			h.log.Warn("the authorities of the host cluster cannot be read", "error", err)
		}
	}
}

func (h *host) read(ctx context.Context) error {
	base, _, err := rest.DefaultServerUrlFor(h.config)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(base.String(), "/")+authInfoPath, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	_, body, err := remote.Exchange(h.http, req, 3<<20)
	if err != nil {
		return err
	}
	var m corev1.ConfigMap
	if err := json.Unmarshal(body, &m); err != nil {
		return err
	}
	if h.known != nil && maps.Equal(h.known, m.Data) {
		return nil
	}
	a, err := h.authenticator(m.Data)
	if err != nil {
		return err
	}
	h.current.Store(&a)
	h.known = m.Data
	return nil
}

// authenticator makes the ways to authenticate that the host cluster publishes.
func (h *host) authenticator(data map[string]string) (authn.Authenticator, error) {
	c := authn.Config{Tokens: h.tokens, Anonymous: authn.Anonymous{All: true}, Clock: h.clock}
	if text := data["client-ca-file"]; text != "" {
		pool, err := poolOf(text)
		if err != nil {
			return nil, fmt.Errorf("client-ca-file: %w", err)
		}
		c.ClientCA = func() *x509.CertPool { return pool }
	}
	text := data["requestheader-client-ca-file"]
	if text == "" {
		return authn.New(c), nil
	}
	pool, err := poolOf(text)
	if err != nil {
		return nil, fmt.Errorf("requestheader-client-ca-file: %w", err)
	}
	p := &authn.RequestHeader{Authorities: func() *x509.CertPool { return pool }}
	for name, to := range map[string]*[]string{
		"requestheader-username-headers": &p.Username, "requestheader-group-headers": &p.Group, "requestheader-uid-headers": &p.UID,
		"requestheader-extra-headers-prefix": &p.ExtraPrefix, "requestheader-allowed-names": &p.AllowedNames,
	} {
		if data[name] == "" {
			continue
		}
		if err := json.Unmarshal([]byte(data[name]), to); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	c.RequestHeader = p
	return authn.New(c), nil
}

func poolOf(text string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(text)) {
		return nil, errors.New("no certificate")
	}
	return pool, nil
}
