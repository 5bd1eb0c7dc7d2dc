// Package storetest judges databases: whether they are what a store needs
// (store.DB). It is given a func that opens one, and knows nothing else of it.
//
// Answers (answers.go) are compared with those of a model, operation by
// operation; what concurrent writers see is checked for being possible one after
// another (linear.go); the rest is told what it should be (suite.go).
package storetest

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// DB is an open database.
type DB interface {
	store.DB
	Close() error
}

// Engine is a database under judgement.
type Engine struct {
	// Open opens it, with what was in it when it was closed.
	Open func(t testing.TB) DB
	// Faults disturb the open database: they break off connections, fail
	// operations, or restart a server. Optional.
	Faults []func(db DB, r *rand.Rand)
}

// RunOver judges a kind of logs that lie on another one: lay puts one on a log in memory.
func RunOver(t *testing.T, lay func(beneath store.DB) store.DB) {
	Run(t, func(t testing.TB) Engine {
		beneath := memory.New(clock.RealClock{})
		t.Cleanup(func() { _ = beneath.Close() })
		return Engine{Open: func(testing.TB) DB { return over{lay(beneath)} }}
	})
}

// over is a log that is closed with the one beneath it.
type over struct{ store.DB }

func (over) Close() error { return nil }

// Run judges a kind of databases. empty makes a new one.
func Run(t *testing.T, empty func(t testing.TB) Engine) {
	for _, part := range []struct {
		name string
		test func(t *testing.T, e Engine)
	}{
		{"answers", testAnswers},
		{"transactions", testTransactions},
		{"bounds", testBounds},
		{"watch", testWatch},
		{"progress", testProgress},
		{"slow", testSlow},
		{"history", testHistory},
		{"expiry", testExpiry},
		{"snapshots", testSnapshots},
		{"reopening", testReopening},
		{"contexts", testContexts},
		{"linearizable", testLinearizable},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, empty(t)) })
	}
}

var seed = flag.Uint64("seed", 0, "of what is random; 0: a new one each time")

// random is the source of what is random in a test, and says how to repeat it.
func random(t *testing.T) *rand.Rand {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("again with -seed=%d", s)
		}
	})
	return rand.New(rand.NewPCG(s, 0))
}

// opened opens an engine until the end of the test.
func opened(t *testing.T, e Engine) DB {
	t.Helper()
	db := e.Open(t)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// commit carries out a transaction that must succeed.
func commit(t *testing.T, db store.DB, txn kv.Txn) int64 {
	t.Helper()
	done, err := db.Commit(t.Context(), txn)
	if err != nil || !done.Held {
		t.Fatalf("commit %+v: %+v, %v", txn, done, err)
	}
	return done.Rev
}

// put puts a value, and returns its revision.
func put(t *testing.T, db store.DB, key, value string) int64 {
	t.Helper()
	return commit(t, db, kv.Txn{Then: []kv.Op{{Key: key, Value: []byte(value)}}})
}

// value reads a key as of a revision (0: now); "" if it does not exist.
func value(ctx context.Context, db store.DB, key string, rev int64) (v string, at int64, err error) {
	answer, err := db.Range(ctx, kv.Range{Key: key, Rev: rev}, func(k kv.KeyValue) bool {
		v = string(k.Value)
		return true
	})
	return v, answer.Rev, err
}

// patience bounds what takes a moment.
const patience = time.Minute
