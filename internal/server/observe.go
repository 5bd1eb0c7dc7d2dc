package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/egress"
	"github.com/kanzen-io/kanzen/internal/metrics"
	"github.com/kanzen-io/kanzen/internal/tracing"
)

// This file wires what watches the server: traces, metrics, its HTTP server's log.

// startTracing connects to the collector of traces, where there is one.
func (s *Server) startTracing(ctx context.Context) error {
	if s.cfg.TracingConfigFile == "" {
		return nil
	}
	c, err := tracing.Load(s.cfg.TracingConfigFile)
	if err == nil {
		s.tracing, err = tracing.New(ctx, c, s.cfg.Hostname(), s.egress.Dial(egress.ControlPlane))
	}
	if err != nil {
		return fmt.Errorf("--tracing-config-file: %w", err)
	}
	return nil
}

// closeTimeout bounds how long the end waits for the collector of traces.
const closeTimeout = 3 * time.Second

// stopTracing sends what has not been sent. That the collector is not there is
// no failure of the server.
func (s *Server) stopTracing() error {
	if s.tracing == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := s.tracing.Close(ctx); err != nil {
		s.log.Warn("traces were lost", "error", err)
	}
	return nil
}

// traced is what stands behind authentication and watches: traces, where there
// are any, and the count of the server's own requests.
func (s *Server) traced(self chain.Filter) chain.Filter {
	if s.tracing == nil {
		return self
	}
	return func(next http.Handler) http.Handler { return s.tracing.Filter(self(next)) }
}

// serverErrors takes the log of the HTTP server: what goes wrong on connections,
// which is the clients' doing and worth a line for debugging only.
type serverErrors struct {
	log     *slog.Logger
	metrics *metrics.Metrics
}

// Write is part of io.Writer.
func (e *serverErrors) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if strings.Contains(text, "TLS handshake error") {
		e.metrics.HandshakeFailed()
	}
	e.log.Debug(text)
	return len(line), nil
}
