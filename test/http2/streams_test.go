package http2_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sync/errgroup"
)

// listMemory bounds what a hundred lists of 3 MB may cost, in MiB, that nobody reads: no server needs a copy for each. (Today it is 3 MiB.)
const listMemory = 128

const (
	watch           = "/api/v1/namespaces?watch=true"
	configMapsWatch = configMaps + "?watch=true"
)

// most is how many streams a server allows.
func (c *client) most() int {
	c.t.Helper()
	n, ok := c.settings[http2.SettingMaxConcurrentStreams]
	if !ok || n == 0 || n > 1000 {
		c.t.Fatalf("the server sets no usable limit of streams: %d, %v", n, ok)
	}
	return int(n)
}

// TestTooManyStreams opens more watches than the server allows (RFC 9113, 5.1.2): those beyond are refused, by REFUSED_STREAM
// or PROTOCOL_ERROR, or wait until others end; they are never served beside the others. net/http: PROTOCOL_ERROR of the stream.
func TestTooManyStreams(t *testing.T) {
	s := start(t)
	s.withstands(t, floodMemory, func() {
		c := s.dial(t)
		defer c.close()
		most := c.most()
		var all []*stream
		for range most + 50 {
			all = append(all, c.open(true, c.request(http.MethodGet, watch)...))
		}
		c.flush()
		served := func() (n int) {
			for _, st := range all {
				if st.status == "200" && !st.over() {
					n++
				}
			}
			return n
		}
		c.until("the allowed watches, or the end of the connection", func() bool { return served() >= most || c.refused() })
		if c.refused() {
			if *c.goAway != http2.ErrCodeProtocol && *c.goAway != http2.ErrCodeEnhanceYourCalm {
				t.Errorf("the connection is ended: %s", c.tell(nil))
			}
			return
		}
		c.pong()
		if n := served(); n != most {
			t.Errorf("%d watches are served at a time, %d are allowed", n, most)
		}
		for _, st := range all {
			if st.reset != nil && *st.reset != http2.ErrCodeProtocol && *st.reset != http2.ErrCodeRefusedStream || st.ended {
				t.Errorf("a watch ended: %s", c.tell(st))
			}
		}
		for _, st := range all[:most/2] { // and there is room again
			c.cancel(st)
		}
		c.alive()
	})
}

// TestWatchesGivenUp resets watches, and keeps the connection: their handlers end nevertheless.
func TestWatchesGivenUp(t *testing.T) {
	s := start(t)
	c := s.dial(t)
	before := s.goroutines(t)
	var all []*stream
	for range c.most() {
		all = append(all, c.open(true, c.request(http.MethodGet, watch)...))
	}
	c.flush()
	for _, st := range all {
		c.until("the status of a watch", func() bool { return st.status == "200" })
	}
	if n := s.goroutines(t); n < before+len(all)-loose {
		t.Fatalf("%d goroutines for %d watches: they do not tell", n-before, len(all))
	}
	for _, st := range all {
		c.cancel(st)
	}
	c.flush()
	s.settles(t, before+loose)
	c.alive()
}

// TestNobodyReads asks for large lists on all streams and reads nothing: with the windows that a client has at first, and with
// windows without end, where TCP alone holds the server.
func TestNobodyReads(t *testing.T) {
	s := start(t)
	path, _ := s.list(t, 6)
	for _, window := range []uint32{defaultWindow, largest} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			s.withstands(t, listMemory, func() {
				c := s.dial(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
				defer c.close()
				if window == largest {
					c.grant(nil, largest-defaultWindow)
				}
				for i := range c.most() { // each a list of its own: kanzen encodes one that many ask for once
					c.open(true, c.request(http.MethodGet, fmt.Sprintf("%s&labelSelector=none!=v%d", path, i))...)
				}
				c.flush()
				// The server is at work on all of them for as long as others are asked.
				for range 20 {
					s.answersEveryone(t.Context(), t)
				}
				// It was: what is in the buffers of TCP is a part of an answer to each.
				c.grants, c.discards = false, true
				c.until("the statuses of all lists", func() bool {
					for _, st := range c.streams {
						if st.status == "" {
							return false
						}
					}
					return true
				})
				for _, st := range c.streams {
					if st.status != "200" {
						t.Fatalf("a list: %s", c.tell(st))
					}
				}
			})
		})
	}
}

// TestSideBySide sends 250 requests at once by net/http's client on one connection, to a server that allows that many. (With
// fewer, that client opens further connections. StrictMaxConcurrentRequests, which should have it wait instead, made it hang in
// Go 1.26: all that wait count as streams.)
func TestSideBySide(t *testing.T) {
	s := start(t, "--http2-max-streams-per-connection=300")
	path, want := s.list(t, 1)
	var dials atomic.Int32
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		},
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	ask := func(path string, length int) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.Addr+path, nil)
		if err != nil {
			return err
		}
		req.Header = http.Header{"Authorization": {"Bearer " + token}}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err == nil && (resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 || len(b) != length) {
			err = errors.New(resp.Proto + " " + resp.Status)
		}
		return err
	}
	must(t, ask("/livez", 2)) // so that all find a connection
	var g errgroup.Group
	for i := range 250 {
		g.Go(func() error {
			if i%10 == 0 {
				return ask(path, len(want))
			}
			return ask("/livez", 2)
		})
	}
	must(t, g.Wait())
	if n := dials.Load(); n != 1 {
		t.Errorf("the client opened %d connections", n)
	}
}

// TestEventsAtOnce holds that what a handler flushes is sent, while it goes on: an event of a watch comes before the next does.
func TestEventsAtOnce(t *testing.T) {
	s := start(t)
	c := s.dial(t)
	st := c.get(configMapsWatch)
	c.until("the status of a watch", func() bool { return st.status == "200" })
	for i := range 10 {
		name := fmt.Sprintf("event-%d", i)
		s.create(t, configMaps, configMap(name, 10))
		c.until("an event of "+name, func() bool { return bytes.Contains(st.body, []byte(`"name":"`+name+`"`)) })
	}
	c.cancel(st)
	c.alive()
}

// TestProtocols asks by HTTP/1.1 on the same port: a client that wants it by ALPN, and one that has no ALPN, get it.
func TestProtocols(t *testing.T) {
	s := start(t)
	for _, protocols := range [][]string{{"http/1.1"}, nil, {"http/1.1", "h2"}, {"h2", "http/1.1"}} {
		conn, err := tls.Dial("tcp", s.Addr, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols})
		must(t, err)
		defer conn.Close()
		if got := conn.ConnectionState().NegotiatedProtocol; got == "h2" {
			if !slices.Contains(protocols, "h2") {
				t.Errorf("h2 for %q", protocols)
			}
			continue
		}
		if len(protocols) == 2 { // RFC 7301, 3.2: the server prefers, and it prefers h2
			t.Errorf("no h2 for %q", protocols)
		}
		must(t, conn.SetDeadline(time.Now().Add(patience)))
		_, err = fmt.Fprintf(conn, "GET /livez HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", s.Addr)
		must(t, err)
		if b, err := io.ReadAll(conn); err != nil || !bytes.HasPrefix(b, []byte("HTTP/1.1 200 OK\r\n")) {
			t.Errorf("for %q: %.200q %v", protocols, b, err)
		}
	}
}
