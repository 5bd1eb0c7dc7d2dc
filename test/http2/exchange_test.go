package http2_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// This file has what HTTP does on streams (RFC 9113, 8): answers without a body, trailers, interim answers, ends.

// stored tells whether an object is there.
func (s *server) stored(t *testing.T, name string) bool {
	t.Helper()
	resp, b := s.do(t, http.MethodGet, configMaps+"/"+name, nil)
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNotFound {
		t.Fatalf("GET of %s: %s %s", name, resp.Status, b)
	}
	return resp.StatusCode == http.StatusOK
}

// TestContentLength has bodies that are not as long as content-length says, which is malformed (RFC 9113, 8.1.1): a stream error
// PROTOCOL_ERROR, or an answer of 4xx. In no case may the object be stored, though the JSON is whole. net/http resets the
// stream where there are more bytes or none, and lets the handler's reading fail where there are fewer: 400 of kanzen.
func TestContentLength(t *testing.T) {
	s := start(t)
	for i, row := range []struct {
		name   string
		length func(body int) string
		end    bool // END_STREAM is in HEADERS: there is no body
	}{
		{"shorter body", func(n int) string { return strconv.Itoa(n + 1) }, false},
		{"longer body", func(n int) string { return strconv.Itoa(n - 1) }, false},
		{"much longer body", func(int) string { return "0" }, false},
		{"no body", strconv.Itoa, true},
		{"no number", func(int) string { return "many" }, false},
		{"negative", func(int) string { return "-1" }, false},
		{"sign", func(n int) string { return "+" + strconv.Itoa(n) }, false},
		{"two values", func(n int) string { return fmt.Sprintf("%d, %d", n, n+1) }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := s.dial(t)
			name := fmt.Sprintf("length-%d", i)
			body := configMap(name, 1000)
			st := c.open(row.end, c.request(http.MethodPost, configMaps, json, field("content-length", row.length(len(body))))...)
			if c.flush(); !row.end {
				c.upload(st, body, 400, 0, true)
			}
			c.await(st)
			t.Log(c.tell(st))
			switch {
			case len(st.status) == 3 && st.status[0] == '4':
			case st.status == "" && st.reset != nil && *st.reset == http2.ErrCodeProtocol:
			case st.status == "" && c.goAway != nil && *c.goAway == http2.ErrCodeProtocol:
			default:
				t.Errorf("4xx or PROTOCOL_ERROR is required: %s", c.tell(st))
			}
			if s.stored(t, name) {
				t.Error("the object is stored")
			}
			if !c.refused() {
				c.alive()
			}
		})
	}
}

// TestTrailers has HEADERS after the body of a request (RFC 9113, 8.1). net/http answers those that are wrong as required.
func TestTrailers(t *testing.T) {
	s := start(t)
	for i, row := range []struct {
		name   string
		end    bool
		fields []hpack.HeaderField
		fails  bool
	}{
		{"a field", true, []hpack.HeaderField{field("x-checksum", "1")}, false},
		{"no field", true, nil, false},
		{"a pseudo-header field", true, []hpack.HeaderField{field(":path", "/"), field("x-checksum", "1")}, true},
		{"no end", false, []hpack.HeaderField{field("x-checksum", "1")}, true}, // 8.1: malformed
		{"upper-case name", true, []hpack.HeaderField{field("X-Checksum", "1")}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := s.dial(t)
			name := fmt.Sprintf("trailers-%d", i)
			st := c.open(false, c.request(http.MethodPost, configMaps, json, field("trailer", "x-checksum"))...)
			c.upload(st, configMap(name, 1000), 400, 0, false)
			must(t, c.WriteHeaders(http2.HeadersFrameParam{StreamID: st.id, EndStream: row.end, EndHeaders: true, BlockFragment: c.encode(row.fields...)}))
			c.flush()
			if row.fails {
				c.rejected(st)
			} else if c.await(st); st.status != "201" || !s.stored(t, name) {
				t.Errorf("201 is required: %s", c.tell(st))
			}
			if row.fails && s.stored(t, name) {
				t.Error("the object is stored")
			}
			if !c.refused() {
				c.alive()
			}
		})
	}
}

// TestExpect asks for 100 before it sends a body (RFC 9110, 10.1.1). As with net/http, 100 comes once the body is wanted, and
// not where the request is refused without it.
func TestExpect(t *testing.T) {
	s := start(t)
	c := s.dial(t)
	expect := field("expect", "100-continue")
	st := c.open(false, c.request(http.MethodPost, configMaps, json, expect)...)
	c.flush()
	c.until("100, or an answer", func() bool { return len(st.interim) > 0 || st.over() })
	c.upload(st, configMap("expected", 1000), 400, 0, true)
	if c.await(st); fmt.Sprint(st.interim) != "[100]" || st.status != "201" {
		t.Errorf("100 and 201 are required: %s", c.tell(st))
	}
	st = c.open(false, with(field("authorization", "Bearer wrong"), expect)(without("authorization")(c.request(http.MethodPost, configMaps, json)))...)
	c.flush()
	if c.await(st); st.status != "401" || len(st.interim) > 0 {
		t.Errorf("401 without 100 is required: %s", c.tell(st))
	}
}

// TestNoBody has answers that have none (RFC 9110, 6.4.1): the last HEADERS end the stream, or an empty DATA does.
func TestNoBody(t *testing.T) {
	s := start(t)
	resp, _ := s.do(t, http.MethodGet, "/openapi/v2", nil)
	tag := resp.Header.Get("ETag")
	if tag == "" {
		t.Fatal("/openapi/v2 has no ETag")
	}
	c := s.dial(t)
	for _, row := range []struct {
		name, method, path, status string
		fields                     []hpack.HeaderField
	}{
		{"HEAD", http.MethodHead, "/openapi/v2", "200", nil},
		{"HEAD of an error", http.MethodHead, "/apis/none.example.com/v1", "404", nil},
		{"204", http.MethodOptions, "/api", "204", []hpack.HeaderField{field("origin", origin), field("access-control-request-method", "GET")}},
		{"304", http.MethodGet, "/openapi/v2", "304", []hpack.HeaderField{field("if-none-match", tag)}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c.t = t
			st := c.open(true, c.request(row.method, row.path, row.fields...)...)
			c.flush()
			c.await(st)
			if st.status != row.status || st.received != 0 || !st.ended || st.reset != nil {
				t.Errorf("%s without a body is required: %s", row.status, c.tell(st))
			}
			if length := st.header.Get("content-length"); row.status == "204" && length != "" { // RFC 9110, 8.6
				t.Errorf("204 has content-length %s", length)
			}
			t.Logf("content-length %q", st.header.Get("content-length"))
		})
	}
	c.t = t
	c.alive()
}

// TestFields compares an answer of frames with what net/http's client makes of it: date, content-length, nothing twice.
func TestFields(t *testing.T) {
	s := start(t)
	resp, body := s.do(t, http.MethodGet, "/version", nil)
	c := s.dial(t)
	st := c.await(c.get("/version"))
	for name, values := range resp.Header {
		if got := st.header.Values(name); len(got) != len(values) {
			t.Errorf("%s is %q, and for net/http's client %q", name, got, values)
		}
	}
	if st.header.Get("content-length") != strconv.Itoa(len(body)) || !bytes.Equal(st.body, body) {
		t.Errorf("content-length %q, %d bytes; %d bytes are for net/http's client", st.header.Get("content-length"), len(st.body), len(body))
	}
	if _, err := http.ParseTime(st.header.Get("date")); err != nil {
		t.Errorf("date: %v", err) // RFC 9110, 6.6.1
	}
}

// TestGoAway has a client that will open no more streams (RFC 9113, 6.8). What it has asked for still comes, whole; net/http
// sends a GOAWAY too, and closes the connection after that.
func TestGoAway(t *testing.T) {
	s := start(t)
	path, want := s.list(t, 3)
	for _, code := range []http2.ErrCode{http2.ErrCodeNo, http2.ErrCodeInternal} {
		t.Run(code.String(), func(t *testing.T) {
			c := s.dial(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			st := c.get(path)
			c.until("the status", func() bool { return st.status == "200" })
			must(t, c.WriteGoAway(0, code, []byte("that is all")))
			c.grant(st, 1<<30)
			c.flush()
			if c.await(st); !st.ended || !bytes.Equal(st.body, want) {
				t.Errorf("the list is not whole: %s", c.tell(st))
			}
			if c.refused() {
				t.Errorf("the server calls it an error: %s", c.tell(st))
			}
			c.close()
		})
	}
}

// TestConnectionClose asks without credentials. kanzen lets such clients have one request on a connection, by "Connection:
// close" of its handler, which net/http's server makes a GOAWAY without an error, and no field. The answer comes whole, and the
// connection is closed.
func TestConnectionClose(t *testing.T) {
	s := start(t)
	c := s.dial(t)
	st := c.open(true, field(":method", "GET"), field(":scheme", "https"), field(":authority", s.Addr), field(":path", "/livez"))
	c.flush()
	c.await(st)
	if !c.awaitEnd() || st.status != "200" || string(st.body) != "ok" || c.goAway == nil || *c.goAway != http2.ErrCodeNo {
		t.Errorf("200, GOAWAY NO_ERROR and the end are required: %s", c.tell(st))
	}
}

// TestStopping stops the server while a list is sent and a watch is open: it says GOAWAY without an error, the list comes whole,
// and the connection is closed.
func TestStopping(t *testing.T) {
	s := start(t)
	path, want := s.list(t, 3)
	c := s.dial(t)
	open := c.get(watch)
	c.until("the status of a watch", func() bool { return open.status == "200" })
	c.grants = false
	st := c.get(path)
	c.until("a part of a list", func() bool { return c.mayReceive == 0 })
	must(t, syscall.Kill(s.PID, syscall.SIGTERM))
	c.until("GOAWAY", func() bool { return c.goAway != nil })
	c.grants = true
	c.grant(st, 1<<30)
	c.grant(nil, 1<<30)
	c.flush()
	if c.await(st); !st.ended || !bytes.Equal(st.body, want) {
		t.Errorf("the list is not whole: %s", c.tell(st))
	}
	if !c.awaitEnd() || *c.goAway != http2.ErrCodeNo {
		t.Errorf("GOAWAY NO_ERROR and the end are required: %s", c.tell(st))
	}
	t.Logf("the watch: %s", c.tell(open))
}
