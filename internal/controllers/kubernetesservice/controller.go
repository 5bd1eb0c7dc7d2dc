package kubernetesservice

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
)

const (
	// name is the name of the Service, its Endpoints and its EndpointSlice.
	name = "kubernetes"

	// interval is the time between two checks of everything, which also renew the lease.
	interval = 10 * time.Second
	// readyInterval is the time between two checks whether this server is ready.
	readyInterval = 100 * time.Millisecond
)

// Config is what a Controller needs.
type Config struct {
	// Client makes the writes.
	Client *inprocess.Client
	// Services, Endpoints and Slices serve the maintained objects.
	Services, Endpoints, Slices *engine.Endpoint
	// ClusterIP is the Service's address, NodePort its node port; 0: none.
	ClusterIP net.IP
	NodePort  int
	// Address and Port are where the cluster reaches this server.
	Address net.IP
	Port    int
	// Roster lists the servers; nil: another program maintains the endpoints.
	Roster Roster
	// Ready returns an error if this server is not ready for requests.
	Ready func(ctx context.Context) error
	Clock clock.WithTicker
	Log   *slog.Logger
}

// Roster lists the API servers of a cluster. One goroutine at a time uses it, except that Follow may run concurrently.
type Roster interface {
	// Join adds this server. It is called every interval.
	Join(ctx context.Context) error
	// Leave removes this server, if it is in the roster.
	Leave(ctx context.Context) error
	// Addresses returns the addresses of all servers, sorted as strings; have are those in the endpoints.
	Addresses(ctx context.Context, have []string) ([]string, error)
	// Follow calls gone for each server that leaves, until ctx ends.
	Follow(ctx context.Context, gone func())
}

// Controller maintains the service for one server.
type Controller struct {
	Config
	joined bool // Join was called, so Leave must be
}

// New creates a Controller.
func New(c Config) *Controller { return &Controller{Config: c} }

// Start creates the Service, and removes this server from the endpoints if an earlier run left it there: it is not
// ready yet. Errors are logged, and Run retries.
func (c *Controller) Start(ctx context.Context) {
	c.report("make the kubernetes service", c.keepService(ctx))
	if c.Roster == nil {
		return
	}
	err := c.Roster.Leave(ctx)
	if err == nil {
		err = c.keepEndpoints(ctx, false)
	}
	c.report("take a server that is not ready yet off the endpoints of the kubernetes service", err)
}

// Run waits until this server is ready, then maintains the service until ctx ends, then removes the server from the
// endpoints.
func (c *Controller) Run(ctx context.Context) {
	if !c.awaitReady(ctx) {
		return
	}
	var following sync.WaitGroup
	defer following.Wait()
	gone := make(chan struct{}, 1)
	if c.Roster != nil {
		follow, stop := context.WithCancel(ctx)
		defer stop()
		following.Go(func() {
			c.Roster.Follow(follow, func() {
				select {
				case gone <- struct{}{}:
				default: // a check is already due
				}
			})
		})
	}
	tick := c.Clock.NewTicker(interval)
	defer tick.Stop()
	for ctx.Err() == nil { // the end of ctx has priority over the next tick
		c.attempt(ctx, "keep the kubernetes service", c.publish)
		select {
		case <-tick.C():
		case <-gone:
		case <-ctx.Done():
		}
	}
	c.attempt(ctx, "take this server off the endpoints of the kubernetes service", c.withdraw)
}

// awaitReady waits until this server is ready; it returns false if ctx ends first.
func (c *Controller) awaitReady(ctx context.Context) bool {
	for c.Ready(ctx) != nil {
		select {
		case <-c.Clock.After(readyInterval):
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// attempt calls f and logs its error. The end of ctx does not cancel f: a cancelled renewal could reach etcd after
// Leave. If etcd does not answer, the attempt in progress and the final one take two intervals together, as long as
// kube-apiserver waits.
func (c *Controller) attempt(ctx context.Context, what string, f func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), interval)
	defer cancel()
	c.report(what, f(ctx))
}

func (c *Controller) report(what string, err error) {
	if err != nil {
		c.Log.Warn("could not "+what, "error", err)
	}
}

// publish updates the Service, the roster and the endpoints.
func (c *Controller) publish(ctx context.Context) error {
	if err := c.keepService(ctx); err != nil {
		return err
	}
	if c.Roster == nil {
		return nil
	}
	c.joined = true
	if err := c.Roster.Join(ctx); err != nil {
		return err
	}
	return c.keepEndpoints(ctx, false)
}

// withdraw removes this server from the endpoints.
func (c *Controller) withdraw(ctx context.Context) error {
	if !c.joined {
		return nil
	}
	if err := c.Roster.Leave(ctx); err != nil {
		return err
	}
	c.joined = false
	return c.keepEndpoints(ctx, true)
}
