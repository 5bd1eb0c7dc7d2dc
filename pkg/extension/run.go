package extension

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/wire/h2"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

const (
	// requestTimeout is how long a request may take, headerTimeout its header, idleTimeout a connection without one.
	requestTimeout, headerTimeout, idleTimeout = time.Minute, 32 * time.Second, 90 * time.Second
	// stuckTimeout is how long the client of an HTTP/2 connection may accept no byte: meanwhile none of its requests can be
	// ended. maxStreams is how many requests it may have under way on a connection.
	stuckTimeout, maxStreams = 30 * time.Second, 100
	// drainTimeout is how long the end waits for requests, farewell for clients to learn of it.
	drainTimeout, farewell = 10 * time.Second, 25 * time.Millisecond
)

// Running is a server that takes requests.
type Running struct {
	parts    *parts
	http     *http.Server
	listener net.Listener
	bundle   []byte
	cut      context.CancelFunc // ends the requests that last by nature
	work     sync.WaitGroup
	done     chan struct{}
	err      error // why it ended; set before done is closed
	closers  []func() error
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context, o Options) error {
	r, err := s.Start(ctx, o)
	if err != nil {
		return err
	}
	return r.Wait()
}

// Start starts the server and returns once it takes requests. It ends when ctx does.
func (s *Server) Start(ctx context.Context, o Options) (_ *Running, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	if o.Listen == "" {
		o.Listen = ":6443"
	}
	clk := clock.RealClock{}
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	r := &Running{cut: cut, done: make(chan struct{})}
	defer func() {
		if err != nil {
			cut()
			err = errors.Join(err, r.close())
		}
	}()
	if r.listener, err = net.Listen("tcp", o.Listen); err != nil {
		return nil, err
	}
	r.closing(func() error { return ignoreClosed(r.listener.Close()) })
	certificate, err := r.certificate(&o, clk)
	if err != nil {
		return nil, err
	}
	if r.parts, err = s.assemble(ctx, &o, clk); err != nil {
		return nil, err
	}
	r.closing(r.parts.close)
	if err := r.parts.host.begin(ctx); err != nil {
		return nil, err
	}
	r.http = &http.Server{
		Handler: r.parts.handler, BaseContext: func(net.Listener) context.Context { return requests },
		ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout + chain.Grace, WriteTimeout: requestTimeout + chain.Grace, IdleTimeout: idleTimeout,
		MaxHeaderBytes: 1 << 20, ErrorLog: stdlog.New(debugLog{o.Log}, "", 0),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate, NextProtos: []string{"h2", "http/1.1"},
			ClientAuth: tls.RequestClientCert}, // judged by the authenticators
	}
	two := &h2.Server{MaxStreams: maxStreams, Stuck: stuckTimeout, StreamWindow: 256 << 10, ConnWindow: 16 << 20}
	if err := two.Configure(r.http); err != nil {
		return nil, err
	}
	return r, r.begin(ctx)
}

// begin starts what runs, and waits for the storage.
func (r *Running) begin(ctx context.Context) error {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.closing(func() error {
		stop()
		r.work.Wait()
		return nil
	})
	failed := make(chan error, 1)
	for _, f := range r.parts.work() {
		r.work.Go(func() {
			if err := f(working); err != nil && working.Err() == nil {
				select {
				case failed <- err:
				default: // one is enough
				}
			}
		})
	}
	if err := r.parts.ready(ctx); err != nil {
		return err
	}
	go func() {
		if err := r.http.ServeTLS(r.listener, "", ""); err != nil && !errors.Is(err, http.ErrServerClosed) {
			select {
			case failed <- err:
			default:
			}
		}
	}()
	go r.supervise(ctx, failed)
	return nil
}

// supervise waits for the end, and ends everything in order: requests, connections, what runs beside them, storage.
func (r *Running) supervise(ctx context.Context, failed <-chan error) {
	defer close(r.done)
	select {
	case <-ctx.Done():
	case r.err = <-failed:
	}
	close(r.parts.stopping)
	drain, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	_ = r.parts.inFlight.Drain(drain) // what is left is cut off
	goodbye, over := context.WithTimeout(context.Background(), 2*farewell)
	defer over()
	time.AfterFunc(farewell, r.cut) // once connections take no more requests
	_ = r.http.Shutdown(goodbye)
	r.cut()
	r.err = errors.Join(r.err, r.http.Close(), r.close())
}

// Wait waits until the server has ended, and returns why if its context did not end it.
func (r *Running) Wait() error {
	<-r.done
	return r.err
}

// Address is the host and port on which the server listens.
func (r *Running) Address() string { return r.listener.Addr().String() }

// CABundle is what to trust in order to trust the server, for the caBundle of an APIService. It is the certificates of
// CertFile if that is set.
func (r *Running) CABundle() []byte { return r.bundle }

// closing adds a step to the end; the last added is the first done.
func (r *Running) closing(f func() error) { r.closers = append(r.closers, f) }

func (r *Running) close() error {
	var errs []error
	for n := len(r.closers) - 1; n >= 0; n-- {
		errs = append(errs, r.closers[n]())
	}
	r.closers = nil
	return errors.Join(errs...)
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// certificate loads the serving certificate, or makes one.
func (r *Running) certificate(o *Options, clk clock.PassiveClock) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	cert, key := o.CertFile, o.KeyFile
	if cert == "" {
		dir := o.DataDir
		if dir == "" {
			var err error
			if dir, err = os.MkdirTemp("", "extension-"); err != nil {
				return nil, err
			}
			r.closing(func() error { return os.RemoveAll(dir) })
		}
		var err error
		if cert, key, err = pki.SelfSigned(dir, "tls", "localhost", append([]string{"127.0.0.1"}, o.Hosts...), clk); err != nil {
			return nil, err
		}
	}
	files, err := pki.NewCertFile(cert, key, clk, o.Log)
	if err != nil {
		return nil, fmt.Errorf("serving certificate: %w", err)
	}
	if r.bundle, err = os.ReadFile(cert); err != nil {
		return nil, err
	}
	return files.GetCertificate, nil
}

// debugLog takes what net/http says of connections, which is the clients' doing.
type debugLog struct{ log *slog.Logger }

// Write is part of io.Writer.
func (d debugLog) Write(line []byte) (int, error) {
	d.log.Debug(string(line))
	return len(line), nil
}
