package spdy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// The server that kubelets use must understand what is sent, and its frames must be understood.
func TestAgainstServer(t *testing.T) {
	client, conn := net.Pipe()
	streams := make(chan httpstream.Stream, 3)
	server, err := spdy.NewServerConnection(conn, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	defer client.Close() // first: the server would wait for a reader

	var o Opener
	go func() {
		var b []byte
		for _, name := range []string{"error", "stdin", "stdout"} {
			b, _ = o.Open(b, http.Header{"Streamtype": {name}, "Port": {"80"}})
		}
		b = AppendPing(b, 1)
		b = append(AppendData(b, 3, 5, false), "hello"...)
		b = AppendData(b, 3, 0, true)
		_, _ = client.Write(b)
	}()
	got := map[string]httpstream.Stream{}
	read := make(chan string, 1)
	go func() {
		for range cap(streams) {
			s := <-streams
			got[s.Headers().Get("streamType")] = s
		}
		data, err := io.ReadAll(got["stdin"])
		if err != nil {
			t.Error(err)
		}
		read <- string(data)
		_, _ = got["stdout"].Write([]byte("there"))
		_ = got["stdout"].Close()
		_ = got["error"].Reset()
	}()
	seen := map[Type]int{}
	var data string
	_ = client.SetReadDeadline(time.Now().Add(time.Minute))
	// The server answers a stream after it has handed it out, so what is written on it may come before its reply.
	for ended := 0; ended < 2 || seen[SynReply] < 3 || seen[Ping] < 1; {
		h, err := ReadHead(client)
		if err != nil {
			t.Fatal(err)
		}
		seen[h.Type]++
		switch {
		case h.Type == Data && h.Stream == 5:
			b := make([]byte, h.Length)
			if _, err := io.ReadFull(client, b); err != nil {
				t.Fatal(err)
			}
			data += string(b)
			if h.Fin {
				ended++
			}
		case h.Type == RstStream && h.Stream == 1:
			ended++
		case h.Type == Ping && h.ID != 1:
			t.Errorf("the answer to another ping: %d", h.ID)
		}
	}
	if s := <-read; s != "hello" {
		t.Errorf("stdin was %q", s)
	}
	if data != "there" {
		t.Errorf("stdout was %q", data)
	}
	if seen[SynReply] != 3 || seen[Ping] != 1 {
		t.Errorf("replies and pings: %v", seen)
	}
}

func TestReadHeadRefuses(t *testing.T) {
	for name, frame := range map[string]string{
		"version":  "\x80\x02\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01",
		"too long": "\x80\x03\x00\x01\x00\xff\xff\xff",
		"no ID":    "\x80\x03\x00\x06\x00\x00\x00\x03\x00\x00\x00",
		"cut off":  "\x80\x03\x00\x01\x00\x00\x00\x0a\x00\x00\x00\x01",
		"half":     "\x80\x03\x00",
	} {
		if _, err := ReadHead(iotest.OneByteReader(strings.NewReader(frame))); err == nil || err == io.EOF {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadHead(strings.NewReader("")); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	// What has no number in front is skipped whole.
	h, err := ReadHead(strings.NewReader("\x80\x03\x00\x10\x00\x00\x00\x01x\x00\x00\x00\x05\x01\x00\x00\x00"))
	if err != nil || h.Type != 16 {
		t.Errorf("an unknown type: %+v, %v", h, err)
	}
}

func FuzzReadHead(f *testing.F) {
	b, _ := new(Opener).Open(nil, http.Header{"Streamtype": {"stdin"}})
	f.Add(AppendGoAway(AppendPing(AppendData(b, 1, 0, true), 2)))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		for {
			h, err := ReadHead(r)
			if err != nil {
				return
			}
			if h.Length < 0 || h.Length > maxLength || h.Stream>>31 != 0 {
				t.Fatalf("%+v", h)
			}
			_, _ = io.CopyN(io.Discard, r, int64(h.Length))
		}
	})
}
