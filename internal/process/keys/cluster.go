package keys

import (
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/chacha20poly1305"
	"google.golang.org/grpc/codes"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// This file lets the servers of a cluster have the same authorities and the same key for service account tokens,
// through etcd. There the set is sealed by a key that each server is given. The first server that starts stores its
// set, in a transaction, so that of several that start at once all have the set of one of them.

// Database is the part of store.DB that the shared set needs.
type Database interface {
	Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error)
	Commit(ctx context.Context, t kv.Txn) (kv.Committed, error)
}

// cluster shares the set of one cluster.
type cluster struct {
	db  Database
	key string // in etcd
	// seals opens what is in etcd: the first also seals, the others are former ones. Empty: this server has no key.
	seals []cipher.AEAD
	clock clock.WithTicker
	log   *slog.Logger
}

const (
	// minClusterKey is how many bytes a cluster key has at least.
	minClusterKey = 32
	// attemptLasts bounds one attempt to reach etcd, retryEvery is the pause between attempts.
	attemptLasts, retryEvery = 10 * time.Second, time.Second
	// firstLook is how long a server without the cluster key waits at its start to learn whether the others have one.
	firstLook = time.Second
)

// newCluster reads the cluster key. It is not below the prefix of the API's objects, which are followed and listed.
func newCluster(root *config.Process, cfg *config.Plane, db Database, clk clock.WithTicker, log *slog.Logger) (*cluster, error) {
	c := &cluster{db: db, key: "kanzen/keys" + strings.TrimSuffix(cfg.KeyPrefix(), "/"), clock: clk, log: log}
	text, from := root.ClusterKey, config.ClusterKeyVariable
	if root.ClusterKeyFile != "" {
		b, err := os.ReadFile(root.ClusterKeyFile)
		if err != nil {
			return nil, fmt.Errorf("--cluster-key-file: %w", err)
		}
		text, from = string(b), "--cluster-key-file"
		if strings.TrimSpace(text) == "" {
			return nil, fmt.Errorf("--cluster-key-file: %s is empty", root.ClusterKeyFile)
		}
	}
	for n, line := range strings.Fields(text) {
		secret, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(secret) < minClusterKey {
			return nil, fmt.Errorf("%s: key %d is not %d bytes or more in base64; `head -c 32 /dev/urandom | base64` makes one", from, n+1, minClusterKey)
		}
		derived, err := hkdf.Key(sha256.New, secret, nil, "kanzen: keys shared through etcd, v1", chacha20poly1305.KeySize)
		if err != nil {
			return nil, err
		}
		seal, err := chacha20poly1305.NewX(derived)
		if err != nil {
			return nil, err
		}
		c.seals = append(c.seals, seal)
	}
	return c, nil
}

// errRefused is an error that another attempt does not mend.
type errRefused struct{ error }

func (e errRefused) Unwrap() error { return e.error }

func refused(err error) bool {
	var r errRefused
	return errors.As(err, &r)
}

// share makes the files below dir those of the cluster. It waits for etcd.
func (c *cluster) share(ctx context.Context, dir string) error {
	for {
		err := c.once(ctx, dir, attemptLasts)
		if err == nil || refused(err) || ctx.Err() != nil {
			return err
		}
		c.log.Warn("could not read the cluster's keys from etcd, trying again", "error", err)
		select {
		case <-c.clock.After(retryEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// once is one attempt: it takes the set in etcd, or puts one there.
func (c *cluster) once(ctx context.Context, dir string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var stored *kv.KeyValue
	if _, err := c.db.Range(ctx, kv.Range{Key: c.key}, func(k kv.KeyValue) bool { stored = &k; return false }); err != nil {
		if len(c.seals) == 0 && forbidden(err) {
			return nil // who may read nothing outside of --etcd-prefix shares nothing
		}
		return err
	}
	if len(c.seals) == 0 {
		if stored != nil {
			return errRefused{errors.New("--cluster-key-file: the servers of this cluster share their keys through etcd; give this one the same key as the others")}
		}
		return nil
	}
	local, err := pki.ReadShared(dir)
	if err != nil {
		return errRefused{err}
	}
	for {
		set, current := pki.Shared(nil), false
		if stored != nil {
			if set, current, err = c.open(stored.Value); err != nil {
				return errRefused{err}
			}
		}
		merged, err := pki.MergeShared(set, local, c.clock.Now())
		if err != nil {
			return errRefused{fmt.Errorf("%w: this server's keys in %s are not those of the cluster; move them away to take over the cluster's", err, dir)}
		}
		if current && set.Equal(merged) {
			return refuse(merged.Write(dir))
		}
		sealed, err := c.seal(merged)
		if err != nil {
			return errRefused{err}
		}
		var rev int64
		if stored != nil {
			rev = stored.ModRevision
		}
		done, err := c.db.Commit(ctx, kv.Txn{If: []kv.Condition{{Key: c.key, Is: kv.ModRevision, N: rev}}, Then: []kv.Op{{Key: c.key, Value: sealed}}, Else: []string{c.key}})
		if err != nil {
			return err
		}
		if done.Held {
			return refuse(merged.Write(dir))
		}
		stored = done.Else[0] // another server was faster
	}
}

// forbidden says that etcd does not let its user read a key.
func forbidden(err error) bool {
	var coded interface{ Code() codes.Code }
	return errors.As(err, &coded) && coded.Code() == codes.PermissionDenied
}

func refuse(err error) error {
	if err == nil {
		return nil
	}
	return errRefused{err}
}

// envelope is the value in etcd.
type envelope struct {
	Version int    `json:"version"`
	Nonce   []byte `json:"nonce"`
	Sealed  []byte `json:"sealed"`
}

func (c *cluster) seal(set pki.Shared) ([]byte, error) {
	plain, err := json.Marshal(set)
	if err != nil {
		return nil, err
	}
	e := envelope{Version: 1, Nonce: make([]byte, chacha20poly1305.NonceSizeX)}
	if _, err := rand.Read(e.Nonce); err != nil {
		return nil, err
	}
	e.Sealed = c.seals[0].Seal(nil, e.Nonce, plain, []byte(c.key))
	return json.Marshal(e)
}

// open returns the set in a value, and whether the current key has sealed it.
func (c *cluster) open(value []byte) (set pki.Shared, current bool, err error) {
	var e envelope
	d := json.NewDecoder(bytes.NewReader(value))
	if err := d.Decode(&e); err != nil || e.Version != 1 || len(e.Nonce) != chacha20poly1305.NonceSizeX {
		return nil, false, fmt.Errorf("the cluster's keys at %s in etcd are not in a form that this version knows", c.key)
	}
	for n, seal := range c.seals {
		plain, err := seal.Open(nil, e.Nonce, e.Sealed, []byte(c.key))
		if err != nil {
			continue
		}
		if err := json.Unmarshal(plain, &set); err != nil {
			return nil, false, fmt.Errorf("the cluster's keys at %s in etcd: %w", c.key, err)
		}
		return set, n == 0, nil
	}
	return nil, false, errors.New("--cluster-key-file: the cluster's keys in etcd are sealed by another key; give this server the same key as the others")
}
