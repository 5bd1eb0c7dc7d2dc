package kine_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/lib/pq"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kanzen-io/kanzen/internal/backup/kine"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/etcd"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/pebble"
)

// kineProgram returns the path of kine, which `make bench/peer/bin/kine` builds.
func kineProgram(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../../bench/peer/bin/kine")
	if named := os.Getenv("KINE"); named != "" {
		path = named
	}
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Skipf("needs kine: %v", err)
	}
	return path
}

// startKine runs kine until the test ends, on a database that it makes.
func startKine(t *testing.T, endpoint string) *clientv3.Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	_ = l.Close()
	cmd := exec.CommandContext(t.Context(), kineProgram(t), "--listen-address", at, "--endpoint", endpoint, "--metrics-bind-address", "0", "--compact-min-retain", "5")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + at}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = c.Close(), cmd.Wait()
		if t.Failed() {
			t.Log(log.String()[max(0, log.Len()-2000):])
		}
	})
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := c.Get(ctx, "/registry/health")
		cancel()
		if err == nil {
			return c
		}
		if time.Since(began) > 20*time.Second {
			t.Fatal(err)
		}
	}
}

// randomWrites writes to kine as API servers do, and compacts.
func randomWrites(t *testing.T, c *clientv3.Client, r *rand.Rand, n int) {
	t.Helper()
	revisions := map[string]int64{}
	for range n {
		key := fmt.Sprintf("/registry/pods/default/p%02d", r.IntN(40))
		value := strings.Repeat(string(rune('a'+r.IntN(26))), []int{0, 10, 300, 5000, 200_000}[r.IntN(2+r.IntN(4))])
		var options []clientv3.OpOption
		if r.IntN(4) == 0 {
			lease, err := c.Grant(t.Context(), int64(3600*(1+r.IntN(3))))
			if err != nil {
				t.Fatal(err)
			}
			options = append(options, clientv3.WithLease(lease.ID))
		}
		rev, then := revisions[key], clientv3.OpPut(key, value, options...)
		if rev > 0 && r.IntN(3) == 0 {
			then = clientv3.OpDelete(key)
		}
		txn := c.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(key), "=", rev)).Then(then)
		if rev > 0 {
			txn = txn.Else(clientv3.OpGet(key))
		}
		answer, err := txn.Commit()
		if err != nil || !answer.Succeeded {
			t.Fatal(answer, err)
		}
		if revisions[key] = answer.Header.Revision; then.IsDelete() {
			revisions[key] = 0
		}
		switch r.IntN(40) {
		case 0:
			_, err = c.Compact(t.Context(), answer.Header.Revision-int64(r.IntN(20)))
		case 1:
			err = storeCompactRevision(t.Context(), c, fmt.Sprint(answer.Header.Revision))
		}
		if err != nil && !strings.Contains(err.Error(), "compacted") && !strings.Contains(err.Error(), "future") {
			t.Fatal(err)
		}
	}
}

// storeCompactRevision writes compact_rev_key as API servers do.
func storeCompactRevision(ctx context.Context, c *clientv3.Client, value string) error {
	const key = "compact_rev_key"
	for version := int64(0); ; {
		answer, err := c.Txn(ctx).If(clientv3.Compare(clientv3.Version(key), "=", version)).Then(clientv3.OpPut(key, value)).Else(clientv3.OpGet(key)).Commit()
		if err != nil || answer.Succeeded {
			return err
		}
		version = answer.Responses[0].GetResponseRange().Kvs[0].Version
	}
}

// sources are databases that kine can make here.
func sources(t *testing.T) map[string]string {
	all := map[string]string{
		"WAL":     "sqlite://" + filepath.Join(t.TempDir(), "state.db") + "?_journal_mode=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate",
		"journal": "sqlite://" + filepath.Join(t.TempDir(), "state.db") + "?_journal_mode=DELETE&cache=shared&_busy_timeout=30000&_txlock=immediate",
	}
	if at := startPostgres(t, ""); at != "" {
		all["Postgres"] = at
	}
	return all
}

// TestAsKine fills databases of kine at random, brings them to both engines while kine runs, and compares what kine and the new database
// answer at each revision that kine has.
func TestAsKine(t *testing.T) {
	t.Parallel()
	kineProgram(t)
	for name, endpoint := range sources(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startKine(t, endpoint)
			for seed := range uint64(3) {
				randomWrites(t, c, rand.New(rand.NewPCG(seed, 1)), 250)
				for _, engine := range []string{"pebble", "etcd"} {
					dir := filepath.Join(t.TempDir(), "data")
					m, err := snapshot.Bring(t.Context(), kine.Saver(endpoint), dir, engine, nil)
					if err != nil {
						t.Fatal(err)
					}
					t.Log(engine, *m)
					compareWithKine(t, c, open(t, engine, filepath.Join(dir, engine)), m)
				}
				for key := range prefixKeys(t, c) { // the next seed begins with none
					if _, err := c.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(key.key), "=", key.mod)).Then(clientv3.OpDelete(key.key)).Else(clientv3.OpGet(key.key)).Commit(); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

type keyAt struct {
	key string
	mod int64
}

func prefixKeys(t *testing.T, c *clientv3.Client) map[keyAt]bool {
	t.Helper()
	answer, err := c.Get(t.Context(), "/registry/pods/", clientv3.WithRange("/registry/pods0"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[keyAt]bool{}
	for _, k := range answer.Kvs {
		out[keyAt{string(k.Key), k.ModRevision}] = true
	}
	return out
}

type openDB interface {
	store.DB
	Close() error
}

func open(t *testing.T, engine, dir string) openDB {
	t.Helper()
	db, err := openDB(nil), error(nil)
	if engine == "pebble" {
		db, err = pebble.Open(pebble.Config{Dir: dir})
	} else {
		db, err = etcd.OpenEmbedded(t.Context(), etcd.Embedded{Dir: dir})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func compareWithKine(t *testing.T, c *clientv3.Client, db store.DB, m *snapshot.Moved) {
	t.Helper()
	newest, err := c.Get(t.Context(), "/registry/", clientv3.WithRange("/registry0"))
	if err != nil || newest.Header.Revision != m.Revision {
		t.Fatalf("kine is at %d, the new database at %d: %v", newest.Header.Revision, m.Revision, err)
	}
	compared := 0
	for rev := m.Revision; rev > 0; rev-- {
		want, wantErr := c.Get(t.Context(), "/", clientv3.WithRange("0"), clientv3.WithRev(rev))
		got := map[string]kv.KeyValue{}
		_, gotErr := db.Range(t.Context(), kv.Range{Key: "/", End: "0", Rev: rev}, func(k kv.KeyValue) bool { got[string(k.Key)] = k; return true })
		if wantErr != nil && gotErr != nil {
			break
		}
		if rev == m.Compacted-1 && gotErr != nil { // the change at it was a deletion, which kine has dropped
			break
		}
		if wantErr != nil || gotErr != nil || len(got) != len(want.Kvs) {
			t.Fatalf("at %d of %d (compacted %d): %d keys, not %v: %v, %v", rev, m.Revision, m.Compacted, len(got), want, gotErr, wantErr)
		}
		for _, k := range want.Kvs {
			g := got[string(k.Key)]
			if string(g.Value) != string(k.Value) || g.ModRevision != k.ModRevision || g.CreateRevision != k.CreateRevision || g.Version < 1 || (g.Version == 1) != (g.CreateRevision == g.ModRevision) {
				t.Fatalf("%s at %d: %d bytes, revisions %d, %d, version %d; kine has %d bytes, %d, %d", k.Key, rev, len(g.Value), g.CreateRevision, g.ModRevision, g.Version, len(k.Value), k.CreateRevision, k.ModRevision)
			}
		}
		compared++
	}
	if compared < 5 {
		t.Errorf("only %d revisions were compared", compared)
	}
	compareCompactKey(t, c, db)
}

// compareCompactKey compares the key whose version API servers compare.
func compareCompactKey(t *testing.T, c *clientv3.Client, db store.DB) {
	t.Helper()
	want, err := c.Get(t.Context(), "compact_rev_key")
	if err != nil {
		t.Fatal(err)
	}
	var got []kv.KeyValue
	if _, err := db.Range(t.Context(), kv.Range{Key: "compact_rev_key"}, func(k kv.KeyValue) bool { got = append(got, k); return true }); err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want.Kvs) || len(got) > 0 && (string(got[0].Value) != string(want.Kvs[0].Value) || got[0].Version != want.Kvs[0].Version) {
		t.Errorf("compact_rev_key: %+v, not %+v", got, want.Kvs)
	}
}

// startPostgres runs a PostgreSQL until the test ends, and returns the URL of a database in it; "" if there is no PostgreSQL here. With the
// certificates of a directory (server, authority) it takes only connections over TLS from clients that have one, too; "": without TLS.
func startPostgres(t *testing.T, certificates string) string {
	t.Helper()
	initdb, err := exec.LookPath("initdb")
	if err != nil {
		t.Log("PostgreSQL is not tested: there is no initdb")
		return ""
	}
	dir, err := os.MkdirTemp("", "pg") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	as := asPostgres(t, dir)
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	make := exec.Command(initdb, "-D", filepath.Join(dir, "data"), "-U", "kine", "-A", "scram-sha-256", "--pwfile", password, "-N")
	make.SysProcAttr = as
	if out, err := make.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	args := []string{"-D", filepath.Join(dir, "data"), "-p", port, "-k", dir, "-h", "127.0.0.1", "-F"}
	query := url.Values{"sslmode": {"disable"}}
	if certificates != "" {
		args, query = append(args, overTLS(t, dir, certificates)...), clientTLS(certificates)
	}
	server := exec.Command(filepath.Join(filepath.Dir(initdb), "postgres"), args...)
	server.SysProcAttr = as
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = server.Process.Signal(syscall.SIGINT), server.Wait() })
	u := url.URL{Scheme: "postgres", User: url.UserPassword("kine", "secret"), Host: "127.0.0.1:" + port, Path: "/postgres", RawQuery: query.Encode()}
	createDatabase(t, u.String())
	u.Path = "/kubernetes"
	return u.String()
}

// createDatabase waits until a server is there, and creates kine's database. kine would do so as well, but it does not wait.
func createDatabase(t *testing.T, at string) {
	t.Helper()
	db, err := sql.Open("postgres", at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		if _, err = db.ExecContext(ctx, "CREATE DATABASE kubernetes"); err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
}

// asPostgres lets a program run as a user that PostgreSQL accepts, which is not root.
func asPostgres(t *testing.T, dir string) *syscall.SysProcAttr {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	const nobody = 65534
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}
