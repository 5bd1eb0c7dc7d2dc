package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/store/etcd/etcdtest"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// migrate runs the command.
func migrate(t *testing.T, args ...string) (said string, err error) {
	t.Helper()
	cmd := migrateCommand()
	var out strings.Builder
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// TestMigrateFromEtcd brings etcd servers, one of which has TLS, to both engines while they run.
func TestMigrateFromEtcd(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		s := etcdtest.Start(t, secure)
		db := s.Dial()
		defer db.Close()
		for range 3 {
			if _, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "/registry/a", Value: []byte("x")}}}); err != nil {
				t.Fatal(err)
			}
		}
		from := []string{"--from", "etcd://" + s.Address()}
		if secure {
			from = []string{"--from", "etcds://" + s.Address(), "--etcd-cafile", s.CertFile()}
		}
		for _, to := range []string{"pebble", "etcd"} {
			said, err := migrate(t, append(from, "--to", to, "--data-dir", filepath.Join(t.TempDir(), "data"))...)
			if err != nil || !strings.Contains(said, "now uses "+to+": 1 keys at revision 4, with the history from revision 1") {
				t.Errorf("%q to %s: %s, %v", from, to, said, err)
			}
		}
	}
}

// TestMigrateWrongly: what cannot be read is an error of one line, and the directory stays as it was.
func TestMigrateWrongly(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	for want, args := range map[string][]string{
		"say kine:sqlite:///path": {"--from", "sqlite:///x"},
		"for --from etcds://":     {"--from", "etcd://127.0.0.1:1", "--etcd-cafile", "ca.crt"},
		"--etcd-keyfile are for":  {"--from", "kine:sqlite:///x", "--etcd-keyfile", "key"},
		"known are":               {"--from", "kine:mysql://x"},
		"no such file":            {"--from", "kine:sqlite:///no/such.db"},
		"--from: ":                {"--from", "etcd://127.0.0.1:1"},
		"--etcd-cafile":           {"--from", "etcds://127.0.0.1:1", "--etcd-cafile", "/no/such"},
		"--to: say":               {"--from", "kine:sqlite:///no/such.db", "--to", "kine"},
	} {
		said, err := migrate(t, append([]string{"--to", "pebble", "--data-dir", dir}, args...)...)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %s, %v", args, said, err)
		}
		if left, _ := filepath.Glob(dir + "*"); len(left) > 0 {
			t.Fatalf("%q left %q", args, left)
		}
	}
}
