package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/base/trim"
	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/datadir"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/wire/egress"
)

// Process has what a machine's process needs once, however many control planes
// share it. Each control plane has its own prefix in etcd.
type Process struct {
	Log       *slog.Logger
	Verbosity *debug.Verbosity
	Clock     clock.WithTickerAndDelayedExecution
	DB        store.DB
	// Others are further etcd clusters, and the resources that lie there.
	Others []Other
	// Classes are etcds in which planes can lie, beside DB.
	Classes []Class
	// Snapshot streams a backup of the database.
	Snapshot func(ctx context.Context) (io.ReadCloser, error)
	// Records are those of the database; nil if Snapshot is.
	Records kv.Recorded
	// SealKeys returns what writes the keys of a data directory, and the file that configures its encryption, to a file, sealed with a
	// passphrase. Nil: this program cannot do that; commands can.
	SealKeys func(dataDir, encryption, passphraseFile string) (func(path string) error, error)
	// Egress selects proxies for connections; nil: all connections are direct.
	Egress *egress.Selector
	// Shared has what is the same for all control planes.
	*Shared
	// Metrics has the metrics of these parts.
	Metrics *prometheus.Registry
	// Root are the settings of the process, for the control plane at its root: the one that does what is done once. Those of Hosted
	// have the zero value.
	Root *config.Process

	settings *config.Process // what all control planes may ask, by methods
	port     *port           // nil: there is none
	hosted   bool            // it is what Hosted returned
	opened   store.DB        // the database that this process has opened; nil: it was given one
	used     *atomic.Bool    // a control plane was made on it
	closers  Closers
}

// Given are parts of a process that its opener brings; Open makes those that are
// nil.
type Given struct {
	Clock  clock.WithTickerAndDelayedExecution
	Shared *Shared
	// DB is a log that the caller closes. Without it the log is the one that
	// the settings name.
	DB store.DB
	// Classes are those that the caller closes. Without DB they are those that the settings name.
	Classes []Class
	// Around wraps the log that is given or opened, before anything uses it. Optional.
	Around func(store.DB) store.DB
}

// Other is an etcd cluster beside the main one.
type Other struct {
	DB        store.DB
	Resources []schema.GroupResource
}

// Class is an etcd in which planes can lie.
type Class struct {
	Name string
	DB   store.DB
}

// Watch returns an error when the database cannot go on.
func (p *Process) Watch(ctx context.Context) error {
	db, ok := p.opened.(breakable)
	if !ok {
		return nil
	}
	select {
	case <-db.Broken():
		return db.Err()
	case <-ctx.Done():
		return nil
	}
}

// Open opens what the settings name: the port first, so that nothing was
// changed if it is in use, then the embedded etcd or the cluster. Call Close
// after the control planes have ended.
func Open(ctx context.Context, cfg *config.Process, log *slog.Logger, verbosity *debug.Verbosity) (*Process, error) {
	p, err := OpenWith(ctx, cfg, log, verbosity, Given{})
	if err != nil {
		return nil, err
	}
	p.closers.Add(background(func(ctx context.Context) { trim.Run(ctx, p.Clock) }))
	return p, nil
}

// OpenWith is Open with given parts. It leaves memory to the process, whose
// other work it does not know.
func OpenWith(ctx context.Context, cfg *config.Process, log *slog.Logger, verbosity *debug.Verbosity, given Given) (_ *Process, err error) {
	if given.Clock == nil {
		given.Clock = clock.RealClock{}
	}
	if given.Shared == nil {
		given.Shared = NewShared()
	}
	if given.Around == nil {
		given.Around = func(db store.DB) store.DB { return db }
	}
	p := &Process{Log: log, Verbosity: verbosity, Clock: given.Clock, Shared: given.Shared, Metrics: prometheus.NewRegistry(), Root: cfg, settings: cfg, used: new(atomic.Bool)}
	p.Metrics.MustRegister(p.Collectors...)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if !cfg.NoListener {
		if p.port, err = openPort(ctx, cfg); err != nil {
			return nil, err
		}
		p.closers.Add(p.port.close)
	}
	if file := cfg.EgressSelectorConfigFile; file != "" {
		if p.Egress, err = egress.Load(file, p.Metrics, p.Clock); err != nil {
			return nil, fmt.Errorf("--egress-selector-config-file: %w", err)
		}
	}
	open := newOpener(cfg, p.Egress, p.Metrics, log)
	if given.DB != nil {
		p.DB, p.Classes = given.Around(given.DB), given.Classes
		return p, nil
	}
	if cfg.DataDir != "" {
		// A member that has joined others is known to them, so that its data stay.
		if _, err := os.Lstat(cfg.DataDir); errors.Is(err, fs.ErrNotExist) && len(cfg.EtcdListenPeers) == 0 {
			p.closers.Add(func() error { return p.removeUnused(cfg.DataDir) }) // after unlock
		}
		unlock, err := datadir.Open(cfg.DataDir)
		if err != nil {
			return nil, err
		}
		p.closers.Add(unlock)
	}
	db, err := open.open(ctx)
	if err != nil {
		return nil, err
	}
	p.closers.Add(db.Close)
	p.DB, p.opened = given.Around(db), db
	if saves, ok := db.(snapshotter); ok {
		p.Snapshot, p.Records = saves.Snapshot, saves
	}
	if err := p.openOthers(cfg, open); err != nil {
		return nil, err
	}
	if err := p.openClasses(cfg, open); err != nil {
		return nil, err
	}
	dir := ""
	if cfg.Embedded() {
		dir = cfg.DataDir
	}
	p.watchDatabase(db, cfg.EtcdServers, dir)
	return p, nil
}

// Hosted returns the process as it is for a control plane that is not at its root: its log is db, it sees no metrics and no backup of the
// whole, it does nothing of what is done once for the process and has no port, and it connects to others by dial.
func (p *Process) Hosted(db store.DB, dial *egress.Selector) *Process {
	other := *p
	other.Classes, other.hosted = nil, true
	other.DB, other.Others, other.Snapshot, other.Records, other.Egress = db, nil, nil, nil, dial
	other.Metrics, other.closers = prometheus.NewRegistry(), Closers{}
	other.Root, other.port = &config.Process{}, nil
	return &other
}

// Hostname is the external name of the server, or the machine's name.
func (p *Process) Hostname() string { return p.settings.Hostname() }

// Advertise returns the address by which the cluster reaches the server.
func (p *Process) Advertise() (net.IP, error) { return p.settings.Advertise() }

// Reached returns the name or address by which clients reach the server.
func (p *Process) Reached() (string, error) { return p.settings.Reached() }

// Address is where clients reach the port of the settings.
func (p *Process) Address() string { return p.settings.Address(p.settings.SecurePort) }

// Embedded reports whether the database runs inside this process.
func (p *Process) Embedded() bool { return p.settings.Embedded() }

// Alone reports whether no other server serves the control plane at the same time: the database is inside this process, or the control
// plane is hosted, and has one owner at a time.
func (p *Process) Alone() bool { return p.hosted || p.Embedded() }

// Quorum reports whether the database, inside this process or not, may have to wait for others.
func (p *Process) Quorum() bool { return !p.Embedded() || len(p.settings.EtcdListenPeers) > 0 }

// Use says that a control plane has come to be on the process, so that its data directory stays.
func (p *Process) Use() { p.used.Store(true) }

// Close closes everything that Open has opened.
func (p *Process) Close() error { return p.closers.Close() }

// removeUnused removes a data directory that this process has made, if no control plane came to be on it: the next try, with the
// right flags, begins as the first one did.
func (p *Process) removeUnused(dir string) error {
	if _, err := os.Lstat(dir); err != nil || p.used.Load() {
		return nil
	}
	r, err := datadir.Reset(dir)
	if errors.Is(err, datadir.ErrInUse) {
		return nil // another server has joined meanwhile
	}
	if err != nil {
		return err
	}
	_, err = r.Remove()
	return err
}

// openOthers opens the clusters of --etcd-servers-overrides.
func (p *Process) openOthers(cfg *config.Process, open *opener) error {
	overrides, err := cfg.EtcdOverridden()
	if err != nil {
		return err
	}
	for _, o := range overrides {
		db, err := open.dial(o.Servers)
		if err != nil {
			return fmt.Errorf("--etcd-servers-overrides: %w", err)
		}
		p.closers.Add(db.Close)
		p.Others = append(p.Others, Other{db, o.Resources})
	}
	return nil
}

// openClasses opens the etcds of --planes-storage. They need not answer yet.
func (p *Process) openClasses(cfg *config.Process, open *opener) error {
	classes, err := cfg.StorageClasses()
	if err != nil {
		return err
	}
	for _, c := range classes {
		db, err := open.connect(c.Servers, c.Files)
		if err != nil {
			return fmt.Errorf("--planes-storage: %s: %w", c.Name, err)
		}
		p.closers.Add(db.Close)
		p.Classes = append(p.Classes, Class{c.Name, db})
		p.watchDatabase(db, c.Servers, "")
	}
	return nil
}

// Parts returns what lies in the other clusters, by the prefixes of keys.
func (p *Process) Parts() (out []store.Part) {
	if len(p.Others) == 0 {
		return nil
	}
	prefixes := map[schema.GroupResource]string{}
	for _, r := range builtin.Resources(builtin.Deps{}) {
		for _, v := range r.Versions {
			if r.Prefix != "" {
				prefixes[schema.GroupResource{Group: v.Group, Resource: r.Plural}] = r.Prefix + "/"
			}
		}
	}
	for _, o := range p.Others {
		part := store.Part{DB: o.DB}
		for _, gr := range o.Resources {
			if prefixes[gr] == "" {
				p.Log.Warn("no such built-in resource, so nothing of it lies in another etcd", "flag", "etcd-servers-overrides", "resource", gr)
				continue
			}
			part.Prefixes = append(part.Prefixes, prefixes[gr])
		}
		out = append(out, part)
	}
	return out
}

// background runs f until the closer that it returns is called.
func background(f func(ctx context.Context)) func() error {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	return func() error {
		cancel()
		<-done
		return nil
	}
}
