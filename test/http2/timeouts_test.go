package http2_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// This file has clients that leave a server waiting: each is given up after a while, as with net/http. Tests that wait do so
// beside each other.

// quick has the server wait no longer for a request than this, and for a client that takes no byte of an answer.
const quick = "--request-timeout=2s"

// TestStuckClient has a client take no byte of the many that it asked for, while it still says that it is there. The
// connection is closed (in net/http: WriteByteTimeout), and what waited for it ends.
func TestStuckClient(t *testing.T) {
	t.Parallel()
	s := start(t, quick)
	path, _ := s.list(t, 6)
	s.withstands(t, listMemory, func() {
		c := s.dial(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: largest})
		defer c.close()
		c.grant(nil, largest-defaultWindow)
		for range c.most() {
			c.open(true, c.request(http.MethodGet, path)...)
		}
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		var err error
		for end := time.Now().Add(patience); err == nil && time.Now().Before(end); <-tick.C {
			must(t, c.WritePing(false, [8]byte{}))
			err = c.send(patience)
		}
		if err == nil || timedOut(err) {
			t.Errorf("the connection is open after %s: %v", patience, err)
		}
	})
}

// TestClosedWindow has a client that reads, and opens no window for a list. The stream is ended, or the connection is, and other
// streams are served meanwhile.
func TestClosedWindow(t *testing.T) {
	t.Parallel()
	s := start(t, quick)
	path, _ := s.list(t, 4)
	s.withstands(t, floodMemory, func() {
		c := s.dial(t)
		defer c.close()
		c.grants = false
		all := []*stream{c.get(path)}
		c.until("all that the connection's window is for", func() bool { return c.mayReceive == 0 })
		all = append(all, c.get(path))
		c.pong()
		c.until("the end of lists that have no window", func() bool { return all[0].over() && all[1].over() || c.ended != nil })
		if all[0].ended || timedOut(c.ended) {
			t.Errorf("a list ended: %s", c.tell(all[0]))
		}
		t.Log(c.tell(all[0]))
	})
}

// TestHalfUpload has a client that sends half of a body. It gets an answer of 4xx or 5xx or a reset, or the connection is closed.
func TestHalfUpload(t *testing.T) {
	t.Parallel()
	s := start(t, quick)
	s.withstands(t, floodMemory, func() {
		c := s.dial(t)
		defer c.close()
		st := c.open(false, c.request(http.MethodPost, configMaps, json)...)
		c.upload(st, configMap("half", 1000)[:500], 100, 0, false)
		c.await(st)
		if st.ended && !strings.HasPrefix(st.status, "4") && !strings.HasPrefix(st.status, "5") || timedOut(c.ended) {
			t.Errorf("4xx, 5xx or an end is required: %s", c.tell(st))
		}
		t.Log(c.tell(st))
	})
}

// TestNoPreface has clients that shake hands, and then send nothing, half of the preface, or no SETTINGS after it. net/http
// closes the connection after 10, 10 and 2 seconds. Without a stream there is nothing else to bound it by.
func TestNoPreface(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, preface := range []string{"", http2.ClientPreface[:10], http2.ClientPreface, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"} {
		t.Run(fmt.Sprintf("%.14q %d", preface, len(preface)), func(t *testing.T) {
			t.Parallel()
			conn, err := tls.Dial("tcp", s.Addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
			must(t, err)
			defer conn.Close()
			_, err = conn.Write([]byte(preface))
			must(t, err)
			must(t, conn.SetReadDeadline(time.Now().Add(2*patience)))
			if _, err = io.Copy(io.Discard, conn); timedOut(err) {
				t.Errorf("the connection is open after %s", 2*patience)
			}
		})
	}
}
