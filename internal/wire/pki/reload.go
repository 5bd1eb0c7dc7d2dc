package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// checkEvery is the least interval between checks of files for changes.
const checkEvery = 3 * time.Second

// CertFile is a certificate and its key, reloaded when the files change.
type CertFile struct{ files[*tls.Certificate] }

// NewCertFile loads a pair. If a later pair is invalid, this is logged and the last valid one stays in use.
func NewCertFile(certPath, keyPath string, clk clock.PassiveClock, log *slog.Logger) (*CertFile, error) {
	c := &CertFile{}
	return c, c.start(clk, log, []string{certPath, keyPath}, func() (*tls.Certificate, error) {
		pair, err := LoadPair(certPath, keyPath)
		return &pair, err
	})
}

// LoadPair loads a certificate and its key. The error names the file that is at fault, as one flag often stands for both.
func LoadPair(certPath, keyPath string) (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(certPath, keyPath)
	if err == nil || errors.As(err, new(*fs.PathError)) {
		return pair, err
	}
	fault := keyPath
	if _, bad := readBundle(certPath); bad != nil {
		fault = certPath
	} else if data, unread := os.ReadFile(keyPath); unread == nil {
		if _, bad := ParsePrivateKey(data); errors.Is(bad, errEncrypted) {
			err = bad
		}
	}
	return pair, fmt.Errorf("%s: %w", fault, err)
}

// GetCertificate is for tls.Config of a server.
func (c *CertFile) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.get(), nil
}

// GetClientCertificate is for tls.Config of a client.
func (c *CertFile) GetClientCertificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return c.get(), nil
}

// BundleFile is a file of CA certificates, reloaded when it changes.
type BundleFile struct{ files[*bundle] }

type bundle struct {
	pem          []byte
	pool         *x509.CertPool
	certificates []*x509.Certificate
}

// NewBundleFile loads a bundle. If a later bundle is invalid, this is logged and the last valid one stays in use.
func NewBundleFile(path string, clk clock.PassiveClock, log *slog.Logger) (*BundleFile, error) {
	b := &BundleFile{}
	return b, b.start(clk, log, []string{path}, func() (*bundle, error) { return readBundle(path) })
}

// Pool returns the current certificates.
func (b *BundleFile) Pool() *x509.CertPool { return b.get().pool }

// PEM returns the file's current content.
func (b *BundleFile) PEM() []byte { return b.get().pem }

// Certificates returns the current certificates one by one.
func (b *BundleFile) Certificates() []*x509.Certificate { return b.get().certificates }

func readBundle(path string) (*bundle, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	b, err := parseBundle(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, nil
}

// files is a value that is read from files. It has no goroutine: a caller that gets the value checks the files' sizes
// and times, if the last check is old enough.
type files[T any] struct {
	paths []string
	load  func() (T, error)
	clock clock.PassiveClock
	log   *slog.Logger

	value atomic.Pointer[T]
	due   atomic.Int64 // time of the next check, Unix nanoseconds

	mu     sync.Mutex
	stamp  []stamp // stamps of the files that value was read from; guarded by mu
	failed []stamp // stamps of the files that could not be read last; guarded by mu
}

// stamp distinguishes versions of a file.
type stamp struct {
	size int64
	time time.Time
}

func (f *files[T]) start(clk clock.PassiveClock, log *slog.Logger, paths []string, load func() (T, error)) error {
	f.paths, f.load, f.clock, f.log = paths, load, clk, log
	f.stamp = f.stamps()
	f.due.Store(clk.Now().Add(checkEvery).UnixNano())
	value, err := load()
	if err != nil {
		return err
	}
	f.value.Store(&value)
	return nil
}

func (f *files[T]) get() T {
	if now := f.clock.Now(); now.UnixNano() >= f.due.Load() && f.mu.TryLock() {
		f.refresh(now)
		f.mu.Unlock()
	}
	return *f.value.Load()
}

// refresh reloads the value if the files changed. It takes the stamps before reading, so that a concurrent change
// causes an extra reload, never a missed one.
func (f *files[T]) refresh(now time.Time) {
	f.due.Store(now.Add(checkEvery).UnixNano())
	current := f.stamps()
	if equalStamps(current, f.stamp) {
		return
	}
	value, err := f.load()
	if err != nil {
		// A half-replaced pair is tried again, but said once.
		if !equalStamps(current, f.failed) {
			f.log.Error("Could not reload certificates, using the old ones", "paths", f.paths, "err", err)
		}
		f.failed = current
		return
	}
	f.stamp, f.failed = current, nil
	f.value.Store(&value)
}

func (f *files[T]) stamps() []stamp {
	all := make([]stamp, len(f.paths))
	for i, path := range f.paths {
		info, err := os.Stat(path)
		if err != nil {
			continue // a missing file has the zero stamp
		}
		all[i] = stamp{info.Size(), info.ModTime()}
	}
	return all
}

func equalStamps(a, b []stamp) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].size != b[i].size || !a[i].time.Equal(b[i].time) {
			return false
		}
	}
	return true
}
