package owners

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	stdlog "log"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// The keys in the log.
const (
	serversPrefix = "/kanzen/servers/"
	ownersPrefix  = "/kanzen/owners/"
)

const (
	// life is how long the key of a server that has crashed stays; two renewals may fail.
	life    = 10 * time.Second
	renewal = 3 * time.Second
	// pause is how long the log is left alone after an error.
	pause = time.Second
)

// Server is one of those that share a log.
type Server struct {
	// Name is the host and port at which the others reach it.
	Name string `json:"name"`
	// Epoch tells one run of it from others.
	Epoch string `json:"epoch"`
	// Certificate is the one that it shows to the others, in DER.
	Certificate []byte `json:"certificate"`
	// Leaving says that it gives up what it has, and takes nothing more.
	Leaving bool `json:"leaving,omitempty"`
}

// id is what the keys in the log call it.
func (s *Server) id() string { return s.Name + "/" + s.Epoch }

// Config says what owners need.
type Config struct {
	DB store.DB
	// Name is the host and port at which the other servers reach this one.
	Name string
	// Dial connects to them; nil: directly.
	Dial utilnet.DialFunc
	// Changed is called when another owner than before may have a plane, or none. It must not wait.
	Changed func(plane types.UID)
	// Joined is called when another server has come. It must not wait.
	Joined func()
	// Went is called when a plane has gone from one server to another, by one of the two: the one that has passed it on, or the one that has
	// taken it. It must not wait. Optional.
	Went  func(Change)
	Clock clock.WithTicker
	Guard *guard.Guard
	Log   *slog.Logger
}

// Owners is what one server knows of the owners of planes. Its methods may be called from several goroutines.
type Owners struct {
	Config
	self *peer
	pair tls.Certificate // of this server, for connections with the others

	leaving atomic.Bool

	buffers  buffers
	errorLog *stdlog.Logger // of answers that break off

	mu      sync.RWMutex
	servers map[string]*peer     // that run, by ID; guarded by mu
	gone    map[string]gone      // servers that ran lately, by ID; guarded by mu
	planes  map[types.UID]record // guarded by mu
	changes []Change             // of the last hour, oldest first; guarded by mu
	passing map[types.UID]bool   // planes that this server is about to pass on; guarded by mu
	asked   time.Time            // when the servers were read because one was not known; guarded by mu
}

// record is what the log says of a plane.
type record struct {
	server string // the ID of its owner; "": nobody is
	rev    int64  // of the key; 0: there is none, the plane is asleep
	seen   int64  // the revision of which this is known

	last  string    // the ID of the server that has given it up, if nobody has it since; "": not known
	since time.Time // when this server learned that it is so
}

// New makes the owners, for a server with a key of its own, which no other run of it has.
func New(c Config) (*Owners, error) {
	now := c.Clock.Now()
	authority, err := pki.NewAuthority("kanzen planes", now)
	if err != nil {
		return nil, err
	}
	made, err := authority.NewPair(pki.Subject{Name: c.Name, Server: true, Client: true, DNS: []string{hostName}, Life: 10 * 365 * 24 * time.Hour}, now)
	if err != nil {
		return nil, err
	}
	o := &Owners{Config: c, servers: map[string]*peer{}, gone: map[string]gone{}, passing: map[types.UID]bool{}, planes: map[types.UID]record{}, errorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug)}
	if o.pair, err = tls.X509KeyPair(made.Cert, made.Key); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(made.Cert)
	o.self = o.peer(&Server{Name: c.Name, Epoch: uuid.NewString(), Certificate: block.Bytes})
	o.servers[o.self.id()] = o.self
	return o, nil
}

// Self returns this server.
func (o *Owners) Self() *Server { return o.self.Server }

// Start tells the others of this server, and learns what there is.
func (o *Owners) Start(ctx context.Context) error {
	// What earlier runs of this server had is nobody's from now on.
	var before []kv.Op
	prefix := serversPrefix + o.Name + "/"
	if _, err := o.DB.Range(ctx, kv.Range{Key: prefix, End: kv.PrefixEnd(prefix), Limit: kv.MaxOps}, func(k kv.KeyValue) bool {
		before = append(before, kv.Op{Delete: true, Key: string(k.Key)})
		return true
	}); err != nil {
		return fmt.Errorf("read the servers of planes: %w", err)
	}
	if len(before) > 0 {
		if _, err := o.DB.Commit(ctx, kv.Txn{Then: before}); err != nil {
			return fmt.Errorf("take the place of this server's last run: %w", err)
		}
	}
	if err := o.renew(ctx); err != nil {
		return err
	}
	_, err := o.list(ctx)
	return err
}

// renew puts the key of this server.
func (o *Owners) renew(ctx context.Context) error {
	is := *o.self.Server
	is.Leaving = o.leaving.Load()
	value, err := json.Marshal(is)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, renewal)
	defer cancel()
	if _, err = o.DB.Commit(ctx, kv.Txn{Then: []kv.Op{{Key: serversPrefix + o.self.id(), Value: value, TTL: life}}}); err != nil {
		return fmt.Errorf("tell the other servers of this one: %w", err)
	}
	return nil
}

// Leave tells the others that this server gives up what it has, before it does.
func (o *Owners) Leave(ctx context.Context) error {
	o.leaving.Store(true)
	o.mu.Lock()
	o.self.leaving = true
	o.mu.Unlock()
	return o.renew(ctx)
}

// Run keeps what is known up to date, and the others knowing of this server, until ctx ends. Then the others take what it had.
func (o *Owners) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { o.Guard.Keep(ctx, "owners of planes", o.follow) })
	every := o.Clock.NewTicker(renewal)
	defer every.Stop()
	for ctx.Err() == nil {
		select {
		case <-every.C():
			if err := o.renew(ctx); err != nil && ctx.Err() == nil {
				o.Log.Warn("other servers may take the planes of this one", "error", err)
			}
		case <-ctx.Done():
		}
	}
	all.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewal)
	defer cancel()
	if _, err := o.DB.Commit(ctx, kv.Txn{Then: []kv.Op{{Delete: true, Key: serversPrefix + o.self.id()}}}); err != nil {
		o.Log.Warn("the other servers wait before they take the planes of this one", "error", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.servers {
		p.close()
	}
}

// Owner returns the server that has a plane; nil: none that runs. wanted says that the plane is to be awake although none has it.
func (o *Owners) Owner(plane types.UID) (owner *Server, wanted bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	r := o.planes[plane]
	if p := o.servers[r.server]; p != nil {
		return p.Server, false
	}
	return nil, r.rev != 0 && r.server != deleted
}

// Named returns the server of a name that runs; nil: there is none.
func (o *Owners) Named(name string) *Server {
	o.mu.RLock()
	defer o.mu.RUnlock()
	for _, p := range o.servers {
		if p.Name == name && !p.leaving {
			return p.Server
		}
	}
	return nil
}

// Chosen returns the server that is to take a plane that nobody has: all choose the same, and each its part of many. nil: all leave.
func (o *Owners) Chosen(plane types.UID) (chosen *Server) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	var most uint64
	for _, p := range o.servers {
		if p.leaving {
			continue
		}
		if w := weight(p.Name, plane); chosen == nil || w > most || w == most && p.Name < chosen.Name {
			chosen, most = p.Server, w
		}
	}
	return chosen
}

// errLost says that another server has become the owner of a plane.
var errLost = errors.New("another server has the control plane now")
