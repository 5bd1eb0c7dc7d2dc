package kubernetesservice

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine"
)

const (
	// name is that of the Service, its Endpoints and its EndpointSlice.
	name    = "kubernetes"
	manager = "kube-apiserver"

	// interval is how often a server looks at everything and renews its lease.
	interval = 10 * time.Second
	// readyInterval is how often one that is not ready looks whether it is.
	readyInterval = 100 * time.Millisecond
)

// Config is what a Controller works with.
type Config struct {
	// Services, Endpoints and Slices serve the objects that are kept. They are
	// written as the user of the context.
	Services, Endpoints, Slices *engine.Endpoint
	// ClusterIP is the Service's address, NodePort its port on nodes; 0: none.
	ClusterIP net.IP
	NodePort  int
	// Address and Port are where the cluster reaches this server.
	Address net.IP
	Port    int
	// Roster says which servers there are; nil: the endpoints are kept by
	// somebody else.
	Roster Roster
	// Ready returns why this server is not ready for requests, if it is not.
	Ready func(ctx context.Context) error
	Clock clock.WithTicker
	Log   *slog.Logger
}

// Roster is which API servers a cluster has. It is used by one goroutine at a
// time; Follow may run beside.
type Roster interface {
	// Join says that this server is there. It is called every interval.
	Join(ctx context.Context) error
	// Leave says that this server is not there, whether or not it was.
	Leave(ctx context.Context) error
	// Addresses are those of all servers, sorted as strings; have are those
	// that the endpoints hold.
	Addresses(ctx context.Context, have []string) ([]string, error)
	// Follow calls gone for each server that goes, until ctx ends.
	Follow(ctx context.Context, gone func())
}

// Controller keeps the service for one server.
type Controller struct {
	Config
	joined bool // since which Leave is owed
}

// New makes a Controller.
func New(c Config) *Controller { return &Controller{Config: c} }

// Start makes the Service, and takes this server off the endpoints if an
// earlier run of it has left it there: it is not ready yet. What fails is
// logged and done by Run.
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

// Run waits until this server is ready and then keeps the service, until ctx
// ends; then it takes the server off the endpoints.
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
				default: // it looks anyway
				}
			})
		})
	}
	tick := c.Clock.NewTicker(interval)
	defer tick.Stop()
	for ctx.Err() == nil { // which counts for more than the next tick
		c.attempt(ctx, "keep the kubernetes service", c.publish)
		select {
		case <-tick.C():
		case <-gone:
		case <-ctx.Done():
		}
	}
	c.attempt(ctx, "take this server off the endpoints of the kubernetes service", c.withdraw)
}

// awaitReady returns whether this server became ready before ctx ended.
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

// attempt does f, and reports where it fails. It is not cut short when ctx
// ends, or a lease could be renewed after it was given up; with an etcd that
// does not answer, an attempt under way and the farewell take two intervals
// together, which is as long as kube-apiserver waits.
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

// publish brings everything up to date.
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

// withdraw takes this server off the endpoints.
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
