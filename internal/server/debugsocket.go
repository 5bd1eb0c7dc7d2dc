package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// debugSocket serves profiles and the verbosity at a Unix socket, to who may
// open that file: it answers also when the server itself does not.
func (s *Server) debugSocket(ctx context.Context) error {
	path := s.cfg.DebugSocketPath
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
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
		case strings.HasPrefix(r.URL.Path, "/debug/pprof"):
			serveProfile(w, r)
		case strings.HasPrefix(r.URL.Path, flagsPath):
			s.cfg.Verbosity.serveFlags(w, r)
		default:
			notFound(w)
		}
	})}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
