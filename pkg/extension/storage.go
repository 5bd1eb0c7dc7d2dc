package extension

import (
	"context"
	"crypto/tls"
	"errors"
	"path/filepath"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/etcd"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// Storage is where the objects of kinds without Functions are. The zero value is Embedded.
type Storage struct {
	open func(ctx context.Context, dir string) (database, error)
}

// database is an open Storage.
type database interface {
	store.DB
	Close() error
}

// Embedded is an etcd inside the server's process, in Options.DataDir.
func Embedded() Storage {
	return Storage{func(ctx context.Context, dir string) (database, error) {
		if dir == "" {
			return nil, errors.New("the embedded etcd needs a data directory")
		}
		return etcd.OpenEmbedded(ctx, etcd.Embedded{Dir: filepath.Join(dir, "etcd")})
	}}
}

// Memory is objects that go with the process.
func Memory() Storage {
	return Storage{func(context.Context, string) (database, error) {
		c := clock.RealClock{}
		return memory.NewAt(c, firstRevision(c)), nil
	}}
}

// Etcd is an etcd cluster; t is nil for plain TCP. Keys begin with /registry/, the group and the plural name of the
// kind: a custom resource of the same name has the same keys and values.
func Etcd(endpoints []string, t *tls.Config) Storage {
	return Storage{func(context.Context, string) (database, error) {
		return etcd.Dial(etcd.Cluster{Endpoints: endpoints, TLS: t})
	}}
}
