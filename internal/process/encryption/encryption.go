package encryption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/kms/apis/v1beta1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/reload"
	"github.com/kanzen-io/kanzen/internal/chain/debug"
)

// Config is what encryption works with.
type Config struct {
	// File is an EncryptionConfiguration.
	File string
	// Reload takes up changes of the file.
	Reload bool
	// KMSv1 allows plugins with the deprecated first version of their API.
	KMSv1 bool
	// Server identifies this server in metrics.
	Server   string
	Registry prometheus.Registerer
	Clock    clock.WithTicker
	Guard    *guard.Guard
	Log      *slog.Logger
}

// Encryption transforms the values of all resources, as the configuration in force says.
type Encryption struct {
	Config
	metrics *metrics
	file    *reload.File
	current atomic.Pointer[setup]

	changed func(context.Context) // see Run
	running sync.WaitGroup        // what Run began
}

// setup is one version of the configuration.
type setup struct {
	hash      string // of the file
	resources map[schema.GroupResource]*options
	plugins   []remote
	v2        []*kms // those of them with the second version of the API
	// grace is how long calls of plugins may take.
	grace  time.Duration
	ctx    context.Context // ends when another version has taken over
	cancel context.CancelFunc
}

// New reads the configuration, and asks its plugins how they are; that they are not well is no error. Close gives back
// what New took.
func New(ctx context.Context, c Config) (*Encryption, error) {
	e := &Encryption{Config: c, metrics: newMetrics(c.Registry, c.Server, c.Clock), changed: func(context.Context) {}}
	e.file = &reload.File{Path: c.File, Take: e.take, Clock: c.Clock, Log: c.Log, Metrics: reload.NewMetrics(c.Registry, "encryption", c.Server)}
	data, err := e.file.Read()
	if err != nil {
		return nil, fmt.Errorf("error while parsing file: error while loading file: error reading encryption provider configuration file %q: %w", c.File, err)
	}
	s, err := e.setup(data)
	if err != nil {
		return nil, err
	}
	var wait sync.WaitGroup
	for _, k := range s.plugins {
		wait.Go(func() { _ = k.check(ctx) }) // Run logs what is wrong
	}
	wait.Wait()
	e.current.Store(s)
	return e, nil
}

// Close ends the connections to plugins.
func (e *Encryption) Close() error {
	e.current.Load().close()
	return nil
}

func (s *setup) close() {
	s.cancel()
	for _, k := range s.plugins {
		k.close()
	}
}

// remote is a provider with a plugin.
type remote interface {
	provider
	// check returns whether the plugin is well.
	check(ctx context.Context) error
	// run follows it until ctx ends.
	run(ctx context.Context)
	close()
}

//lint:ignore ST1005 as kube-apiserver says it
var errKMSv1 = errors.New("KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.  " +
	"Set --feature-gates=KMSv1=true to use the deprecated KMSv1 feature.")

// setup makes what a configuration says.
func (e *Encryption) setup(data []byte) (_ *setup, err error) {
	c, err := parseConfig(e.File, data, e.Reload)
	if err != nil {
		return nil, fmt.Errorf("error while parsing file: %w", err)
	}
	s := &setup{hash: hashOf(string(data))}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.resources, err = build(c, e.metrics, func(c *apiserver.KMSConfiguration) (provider, error) {
		s.grace += 2 * c.Timeout.Duration
		if c.APIVersion != "v2" {
			k, err := e.pluginV1(c)
			if err == nil {
				s.plugins = append(s.plugins, k)
			}
			return k, err
		}
		p, err := dial(c.Name, c.Endpoint, c.Timeout.Duration, e.metrics)
		if err != nil {
			return nil, fmt.Errorf("could not configure KMSv2-Plugin's probe %q, error: %w", c.Name, err)
		}
		k := newKMS(c.Name, p, e.Clock, e.Log, e.metrics)
		s.plugins, s.v2 = append(s.plugins, k), append(s.v2, k)
		return k, nil
	})
	if err != nil {
		s.close()
		return nil, fmt.Errorf("error while building transformers: %w", err)
	}
	return s, nil
}

// pluginV1 makes the provider of a plugin with the first version of the API.
func (e *Encryption) pluginV1(c *apiserver.KMSConfiguration) (*kmsV1, error) {
	if !e.KMSv1 {
		return nil, errKMSv1
	}
	e.Log.Warn("KMSv1 is deprecated; use KMSv2", "kms", c.Name)
	conn, err := connect(c.Name, c.Endpoint, e.metrics)
	if err != nil {
		return nil, fmt.Errorf("could not configure KMSv1-Plugin's probe %q, error: %w", c.Name, err)
	}
	p := &pluginV1{connection: conn, client: v1beta1.NewKeyManagementServiceClient(conn), timeout: c.Timeout.Duration}
	return newKMSV1(c.Name, p, int(*c.CacheSize), e.Clock, e.Log, e.metrics), nil
}

// Run follows the keys of plugins, and the file if that was asked for, until ctx ends. It calls changed after each change of the
// configuration: values that could be decrypted before may no longer be.
func (e *Encryption) Run(ctx context.Context, changed func(context.Context)) {
	defer e.running.Wait()
	e.changed = changed
	e.follow(ctx, e.current.Load())
	if e.Reload {
		e.file.Run(ctx)
		return
	}
	<-ctx.Done()
}

// follow follows the keys of a setup's plugins until ctx ends or another setup takes over.
func (e *Encryption) follow(ctx context.Context, s *setup) {
	for _, k := range s.plugins {
		e.running.Go(func() {
			ctx, cancel := context.WithCancel(ctx)
			defer context.AfterFunc(s.ctx, cancel)()
			e.Guard.Keep(ctx, "following a KMS plugin", k.run)
		})
	}
}

// leastPatience is how long plugins of a changed configuration have at least to be well.
const leastPatience = 10 * time.Second

// take takes up a changed configuration, once its plugins are well.
func (e *Encryption) take(ctx context.Context, data []byte) error {
	s, err := e.setup(data)
	if err != nil {
		return err
	}
	if err := e.awaitWell(ctx, s); err != nil {
		s.close()
		return reload.NewPassing(fmt.Errorf("health check for new transformers failed: %w", err))
	}
	old := e.current.Swap(s)
	e.follow(ctx, s)
	e.running.Go(func() {
		// What began with the old one may be asking its plugins.
		select {
		case <-e.Clock.After(old.grace):
		case <-ctx.Done():
		}
		old.close()
	})
	e.changed(ctx)
	return nil
}

func (e *Encryption) awaitWell(ctx context.Context, s *setup) error {
	deadline := e.Clock.Now().Add(max(s.grace, leastPatience))
	for {
		err := s.check(ctx)
		if err == nil || ctx.Err() != nil || e.Clock.Now().After(deadline) {
			return err
		}
		select {
		case <-e.Clock.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// check returns which plugins are not well.
func (s *setup) check(ctx context.Context) error {
	var errs []error
	for n, k := range s.plugins {
		if err := k.check(ctx); err != nil {
			errs = append(errs, fmt.Errorf("kms-provider-%d: %w", n, err))
		}
	}
	return utilerrors.Reduce(utilerrors.NewAggregate(errs))
}

// Checks are the health checks of plugins: one for all, or as upstream has it one for each, if some have the first version of
// their API and cannot change.
func (e *Encryption) Checks() (checks []debug.Check) {
	s := e.current.Load()
	if !e.Reload && len(s.v2) < len(s.plugins) {
		for n, k := range s.plugins {
			checks = append(checks, debug.Check{Name: fmt.Sprintf("kms-provider-%d", n), Test: k.check})
		}
		return checks
	}
	if !e.Reload && len(s.plugins) == 0 {
		return nil
	}
	return []debug.Check{{Name: "kms-providers", Test: func(ctx context.Context) error { return e.current.Load().check(ctx) }}}
}
