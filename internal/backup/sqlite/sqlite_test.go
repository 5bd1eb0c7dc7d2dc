package sqlite_test

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/backup/sqlite"
)

// python runs a program of Python's sqlite3, which is SQLite itself. The program gets its arguments as sys.argv[1:]. What it prints is returned line
// by line; it ends when stop is called, at a line on its standard input.
func python(t *testing.T, program string, args ...string) (line func() string, step, stop func()) {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3, for its SQLite")
	}
	cmd := exec.CommandContext(t.Context(), path, append([]string{"-c", program}, args...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReaderSize(out, 1<<20)
	line = func() string {
		s, err := r.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		return strings.TrimSuffix(s, "\n")
	}
	step = func() { _, _ = io.WriteString(in, "\n") }
	stop = func() { _ = in.Close(); _, _ = io.Copy(io.Discard, r); _ = cmd.Wait() }
	return line, step, stop
}

// randomDatabase makes a database with random rows, prints what SQLite reads in it, and stays connected until a line comes. In the modes "wal"
// and "recover" a part of the rows is in the log, and another connection has a transaction open, some of whose pages are in the log, too. In the mode
// "recover" the process ends with the log as it is.
const randomDatabase = `
import os, random, sqlite3, sys
path, seed, mode = sys.argv[1], int(sys.argv[2]), sys.argv[3]
r = random.Random(seed)
db = sqlite3.connect(path, isolation_level=None)
db.execute("PRAGMA page_size=%d" % r.choice([512, 1024, 2048, 4096, 8192, 32768, 65536]))
db.execute("PRAGMA auto_vacuum=%d" % r.choice([0, 1, 2]))
if mode != "delete": db.execute("PRAGMA journal_mode=WAL").fetchall()
db.execute("PRAGMA synchronous=OFF")
db.execute("PRAGMA wal_autocheckpoint=%d" % r.choice([0, 10, 1000]))
db.execute("CREATE TABLE before(a, b)")
db.execute("CREATE TABLE kine (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, number INTEGER, real, value BLOB, old_value BLOB)")
db.execute("CREATE INDEX names ON kine (name)")
def blob():
    n = r.choice([0, 1, 20, 200, 480, 500, 1000, 4000, 5000, 70000, 300000][:r.randint(1, 11)])
    return None if r.random() < .1 else r.randbytes(max(0, n + r.randint(-40, 40)))
def number(): return r.choice([None, 0, 1, -1, r.randint(-2**7, 2**7), r.randint(-2**15, 2**15), r.randint(-2**23, 2**23), r.randint(-2**31, 2**31), r.randint(-2**47, 2**47), r.randint(-2**63, 2**63-1)])
def change(db, n):
    for _ in range(n):
        x = r.random()
        if x < .7: db.execute("INSERT INTO kine(name, number, real, value, old_value) VALUES (?,?,?,?,?)", (None if r.random() < .05 else "ключ" * r.randint(0, 60), number(), r.choice([None, r.random(), 3, "text"]), blob(), blob()))
        elif x < .9: db.execute("DELETE FROM kine WHERE id % 7 = ?", (r.randint(0, 30),))
        else: db.execute("UPDATE kine SET value=? WHERE id = (SELECT id FROM kine ORDER BY abs(id - ?) LIMIT 1)", (blob(), r.randint(0, 1000)))
for _ in range(r.randint(1, 8)):
    db.execute("BEGIN"); change(db, r.randint(0, 150)); db.execute("COMMIT")
    if r.random() < .2: db.execute("PRAGMA wal_checkpoint(%s)" % r.choice(["PASSIVE", "FULL", "RESTART", "TRUNCATE"])).fetchall()
    if r.random() < .2: db.execute("VACUUM")
if r.random() < .3: db.execute("ALTER TABLE kine ADD COLUMN added INTEGER")
if r.random() < .2: db.execute("INSERT INTO kine(id, name) VALUES (?, 'far')", (2**62,))
rows = db.execute("SELECT * FROM kine ORDER BY id").fetchall()
def cell(v):
    if v is None: return "-"
    if isinstance(v, bytes): return "b" + v.hex()
    if isinstance(v, str): return "t" + v.encode().hex()
    if isinstance(v, float): return "f" + v.hex()
    return "i%d" % v
if mode != "delete":
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA cache_size=4"); writer.execute("PRAGMA cache_spill=1"); writer.execute("PRAGMA synchronous=OFF")
    writer.execute("BEGIN IMMEDIATE"); change(writer, 100)
print(len(rows))
for row in rows: print(" ".join(cell(v) for v in row))
sys.stdout.flush()
if mode == "recover": os._exit(0)
sys.stdin.readline()
`

// TestAsSQLite reads random databases: pages of all sizes, rows of all sizes, deleted rows, logs with commits and the beginning of another
// transaction. It compares them with what SQLite itself reads.
func TestAsSQLite(t *testing.T) {
	t.Parallel()
	for seed := range 8 {
		for _, mode := range []string{"delete", "wal", "recover"} {
			t.Run(fmt.Sprintf("%s/%d", mode, seed), func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "state.db")
				line, _, stop := python(t, randomDatabase, path, strconv.Itoa(seed), mode)
				defer stop()
				n, err := strconv.Atoi(line())
				if err != nil {
					t.Fatal(err)
				}
				var want []string
				for range n {
					want = append(want, line())
				}
				if mode == "recover" {
					stop()
				}
				if got := rows(t, path); !slices.Equal(got, want) {
					t.Fatalf("%d rows, not %d: %s", len(got), len(want), firstDifference(got, want))
				}
			})
		}
	}
}

func firstDifference(a, b []string) string {
	for n := range min(len(a), len(b)) {
		if a[n] != b[n] {
			return fmt.Sprintf("row %d: %.300s, not %.300s", n, a[n], b[n])
		}
	}
	return "one is the beginning of the other"
}

// rows prints the rows of table kine as randomDatabase does.
func rows(t *testing.T, path string) (out []string) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	out, err = read(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func read(ctx context.Context, db *sqlite.DB) (out []string, err error) {
	table, err := db.Table(ctx, "kine")
	if err != nil {
		return nil, err
	}
	return out, table.Scan(ctx, func(r *sqlite.Row) error {
		cells := []string{fmt.Sprintf("i%d", r.ID)}
		for n := 1; n < len(table.Columns); n++ {
			v, err := r.Column(n)
			if err != nil {
				return err
			}
			cells = append(cells, show(v))
		}
		out = append(out, strings.Join(cells, " "))
		return nil
	})
}

func show(v sqlite.Value) string {
	switch v.Kind {
	case sqlite.Int:
		return fmt.Sprintf("i%d", v.Int)
	case sqlite.Float:
		return "f" + pythonHex(v.Float)
	case sqlite.Text:
		return "t" + hex.EncodeToString(v.Bytes)
	case sqlite.Blob:
		return "b" + hex.EncodeToString(v.Bytes)
	}
	return "-"
}

// pythonHex prints a number between 0 and 1 as Python's float.hex does.
func pythonHex(f float64) string {
	fraction, exponent := math.Frexp(f)
	return fmt.Sprintf("0x1.%013xp%+d", math.Float64bits(fraction)&(1<<52-1), exponent-1)
}

// busyWriter commits to a database without a pause, in an invariant: all rows of a commit have the same value. It checkpoints and begins the log anew
// as often as it can. A failed write is printed.
const busyWriter = `
import sqlite3, sys, threading, time
path, mode = sys.argv[1], sys.argv[2]
db = sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False)
db.execute("PRAGMA journal_mode=%s" % mode).fetchall()
db.execute("PRAGMA synchronous=OFF"); db.execute("PRAGMA wal_autocheckpoint=5")
db.execute("CREATE TABLE kine (id INTEGER PRIMARY KEY, name TEXT, value BLOB)")
db.execute("BEGIN")
for i in range(60): db.execute("INSERT INTO kine VALUES (?, '', ?)", (i, bytes(3000)))
db.execute("COMMIT")
print("ready"); sys.stdout.flush()
stop = []
def run():
    n = 0
    while not stop:
        n += 1
        time.sleep(.001)
        try:
            db.execute("UPDATE kine SET name = ?, value = ?", (str(n), str(n).encode() * (200 + n % 300)))
            if n % 3 == 0: db.execute("PRAGMA wal_checkpoint(%s)" % ["PASSIVE", "RESTART", "TRUNCATE"][n % 9 // 3]).fetchall()
        except sqlite3.Error as e: print(e)
    print("commits", n); sys.stdout.flush()
t = threading.Thread(target=run); t.start()
sys.stdin.readline(); stop.append(1); t.join()
`

// TestUnderWriter reads a database while another process writes to it: what is read is of one commit, and no write fails.
func TestUnderWriter(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"wal", "delete"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "state.db")
			line, step, stop := python(t, busyWriter, path, mode)
			defer stop()
			if got := line(); got != "ready" {
				t.Fatal(got)
			}
			commits := map[string]bool{}
			for range 60 {
				time.Sleep(5 * time.Millisecond) // the writer begins the log anew only while nobody reads
				got := rows(t, path)
				if len(got) != 60 {
					t.Fatalf("%d rows", len(got))
				}
				_, commit, _ := strings.Cut(got[0], " ")
				commits[commit] = true
				for _, row := range got {
					if _, other, _ := strings.Cut(row, " "); other != commit {
						t.Fatalf("rows of two commits: %.60s, %.60s", commit, other)
					}
				}
			}
			step()
			if got := line(); !strings.HasPrefix(got, "commits ") {
				t.Errorf("the writer: %s", got)
			}
			if len(commits) < 5 {
				t.Errorf("it was read at %d commits only", len(commits))
			}
		})
	}
}

// hotJournal leaves a database in the middle of a transaction, some of whose pages are in the database.
const hotJournal = `
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("CREATE TABLE kine (id INTEGER PRIMARY KEY, value BLOB)")
db.execute("PRAGMA cache_size=2"); db.execute("PRAGMA cache_spill=1")
db.execute("BEGIN")
for i in range(500): db.execute("INSERT INTO kine VALUES (?, ?)", (i, bytes(900)))
print("left"); sys.stdout.flush(); os._exit(0)
`

func TestHotJournal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	line, _, stop := python(t, hotJournal, path)
	if got := line(); got != "left" {
		t.Fatal(got)
	}
	stop()
	if _, err := sqlite.Open(t.Context(), path); err == nil || !strings.Contains(err.Error(), "was not completed") {
		t.Error(err)
	}
}

// fixtures are databases in testdata, and what SQLite reads in them.
type fixtures map[string][]string

func readFixtures(t testing.TB) (f fixtures) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "rows.json"))
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFixtures reads databases that are kept here, so that something is tested where SQLite is missing.
func TestFixtures(t *testing.T) {
	t.Parallel()
	for name, want := range readFixtures(t) {
		dir := t.TempDir()
		for _, suffix := range []string{"", "-wal"} {
			if b, err := os.ReadFile(filepath.Join("testdata", name+suffix)); err == nil {
				if err := os.WriteFile(filepath.Join(dir, name+suffix), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := rows(t, filepath.Join(dir, name)); !slices.Equal(got, want) {
			t.Errorf("%s: %s", name, firstDifference(got, want))
		}
	}
}

// TestNoDatabase: what is no database is an error of few words.
func TestNoDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"empty": "", "text": strings.Repeat("no database ", 100)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := sqlite.Open(t.Context(), filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), "no database of SQLite") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzRead: a damaged database is an error, and never a panic or an endless loop.
func FuzzRead(f *testing.F) {
	for name := range readFixtures(f) {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		log, _ := os.ReadFile(filepath.Join("testdata", name+"-wal"))
		f.Add(b, log)
	}
	f.Fuzz(func(t *testing.T, b, log []byte) {
		path := filepath.Join(t.TempDir(), "state.db")
		if err := errors.Join(os.WriteFile(path, b, 0o600), os.WriteFile(path+"-wal", log, 0o600)); err != nil {
			t.Fatal(err)
		}
		db, err := sqlite.Open(t.Context(), path)
		if err != nil {
			return
		}
		defer db.Close()
		_, _ = read(t.Context(), db)
	})
}

// TestBitFlips flips bits of the databases that are kept here: each is read, or an error that names a page or what is damaged.
func TestBitFlips(t *testing.T) {
	t.Parallel()
	for name := range readFixtures(t) {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		path, found := filepath.Join(t.TempDir(), name), 0
		for at := 0; at < len(b); at += 1 + at/300 {
			damaged := slices.Clone(b)
			damaged[at] ^= 1 << (at % 8)
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			db, err := sqlite.Open(t.Context(), path)
			if err == nil {
				_, err = read(t.Context(), db)
				_ = db.Close()
			}
			if err != nil {
				found++
			}
		}
		if found < 20 {
			t.Errorf("%s: only %d bit flips were found", name, found)
		}
	}
}
