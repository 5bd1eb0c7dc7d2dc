package debug

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/internal/request/route"
)

// ServeSocket serves profiles and the verbosity on a Unix socket until ctx ends. Only the file's owner may open it. It
// also works when the server itself does not respond.
func ServeSocket(ctx context.Context, path string, v *Verbosity) error {
	if err := removeSocket(path); err != nil {
		return fmt.Errorf("--debug-socket-path: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("--debug-socket-path: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, l.Close())
	}
	srv := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/debug/pprof" || strings.HasPrefix(r.URL.Path, "/debug/pprof/"):
			ServeProfile(w, r)
		case strings.HasPrefix(r.URL.Path, FlagsPath):
			v.ServeHTTP(w, r)
		default:
			route.NotFound(w)
		}
	})}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// removeSocket removes what an earlier server has left; nothing that is no socket.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&os.ModeSocket == 0:
		return fmt.Errorf("%s is there and is no socket", path)
	}
	return os.Remove(path)
}

// ServeProfile serves /debug/pprof and what is below it.
func ServeProfile(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/debug/pprof" { // links on the page are relative
		http.Redirect(w, r, "/debug/pprof/", http.StatusFound)
		return
	}
	switch strings.TrimPrefix(r.URL.Path, "/debug/pprof/") {
	case "cmdline":
		pprof.Cmdline(w, r)
	case "profile":
		pprof.Profile(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	case "trace":
		pprof.Trace(w, r)
	default:
		pprof.Index(w, r)
	}
}
