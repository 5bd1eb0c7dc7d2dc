package aggregator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"golang.org/x/net/http/httpguts"

	"github.com/kanzen-io/kanzen/internal/base/span/spanhttp"
	"github.com/kanzen-io/kanzen/internal/wire/frontproxy"
)

// This file passes short requests on over the lines of a backend.

const (
	// maxShort bounds the body of a short request, in bytes.
	maxShort = copySize
	// maxRecord is the size of a TLS record, in bytes. A server that has not got the whole of it has got nothing.
	maxRecord = 16 << 10
	// maxInformational bounds the informational answers (1xx) before the answer.
	maxInformational = 5
)

// short reports whether a request may have a line: it ends within its deadline, and has no large body, trailers or
// upgrade.
func short(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return false
	}
	_, bounded := r.Context().Deadline()
	return bounded && r.ContentLength >= 0 && r.ContentLength <= maxShort && len(r.Trailer) == 0 && r.Header["Te"] == nil
}

// exchange passes a short request on over a line. It reports false, having done nothing, if there is none.
func (f *forward) exchange(w http.ResponseWriter, r *http.Request) bool {
	pool := buffers{r.Context(), f.server}
	buffer := pool.Get()
	defer pool.Put(buffer)
	body := buffer[:r.ContentLength]
	// No line is held while the client sends.
	if len(body) > 0 {
		if _, err := io.ReadFull(r.Body, body); err != nil {
			f.fail(w, r, err)
			return true
		}
	}
	target := frontproxy.Target(r, f.address)
	ctx, traced, end := spanhttp.Request(r.Context(), r.Method, target)
	l, resp, err := f.ask(ctx, w, r, &message{target: target, traced: traced, body: body})
	if errors.Is(err, errNoLine) {
		end(0, err)
		f.body = bytes.Clone(body) // the buffer is given back
		return false
	}
	if err != nil {
		end(0, err)
		f.fail(w, r, err)
		return true
	}
	end(resp.StatusCode, nil)
	f.pass(w, r, l, resp, buffer[:])
	return true
}

// message is what a request says beside its headers.
type message struct {
	target *url.URL
	traced http.Header // propagates the trace; nil: it is not recorded
	body   []byte
}

// held is a line with the request that uses it.
type held struct {
	*line
	lines *lines
	// release stops the context of the request from closing the connection; false: it has.
	release func() bool
}

func (h *held) drop() {
	h.release()
	h.lines.drop(h.line)
}

// ask sends a request and reads the head of the answer. It tries again where nothing was sent, and reads also where the
// kept connection ended before anything was answered.
func (f *forward) ask(ctx context.Context, w http.ResponseWriter, r *http.Request, m *message) (*held, *http.Response, error) {
	all := f.service.backend.lines
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	for again := false; ; again = true {
		l, err := all.take(ctx, f.address, again)
		if err != nil {
			f.server.Metrics.certificates.Saw(nil, err)
			return nil, nil, ended(ctx, err)
		}
		if !f.write(l, r, m) {
			all.drop(l)
			return nil, nil, errNoLine // the shared transport says what is wrong with it
		}
		h := &held{line: l, lines: all, release: context.AfterFunc(ctx, func() { _ = l.plain.Close() })}
		resp, sent, err := h.exchange(w, r)
		if err == nil {
			f.server.Metrics.certificates.Saw(l.peer, nil)
			return h, resp, nil
		}
		h.drop()
		retry := l.kept && !l.read && ctx.Err() == nil && (reads || !sent && len(l.out) <= maxRecord)
		if again || !retry {
			return nil, nil, ended(ctx, err)
		}
	}
}

// ended returns the reason of a failure: the end of the context, if that has closed the connection.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, errNoLine) {
		return cause
	}
	return err
}

// write makes the bytes of a request. It reports false if a header cannot be sent as it is.
func (f *forward) write(l *line, r *http.Request, m *message) bool {
	out := append(l.out[:0], r.Method...)
	out = append(append(out, ' '), m.target.RequestURI()...)
	out = append(append(append(out, " HTTP/1.1\r\nHost: "...), f.address...), "\r\n"...)
	valid := httpguts.ValidHostHeader(f.address)
	add := func(name, value string) {
		valid = valid && httpguts.ValidHeaderFieldName(name) && httpguts.ValidHeaderFieldValue(value)
		out = append(append(append(append(out, name...), ": "...), value...), "\r\n"...)
	}
	frontproxy.Headers(r, f.user, f.address, m.target.EscapedPath(), func(name, value string) {
		if m.traced[name] == nil {
			add(name, value)
		}
	})
	for name := range m.traced {
		add(name, m.traced.Get(name))
	}
	if len(m.body) > 0 || r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch {
		out = append(strconv.AppendInt(append(out, "Content-Length: "...), int64(len(m.body)), 10), "\r\n"...)
	}
	l.out = append(append(out, "\r\n"...), m.body...)
	return valid
}

// exchange sends what write has made, and reads the head of the answer. sent reports whether the server may have got it.
func (h *held) exchange(w http.ResponseWriter, r *http.Request) (resp *http.Response, sent bool, err error) {
	h.left = frontproxy.MaxHeader
	if _, err := h.conn.Write(h.out); err != nil {
		return nil, !frontproxy.Unsent(err), err
	}
	for range maxInformational + 1 {
		resp, err := http.ReadResponse(h.reader, r)
		if errors.Is(err, io.ErrUnexpectedEOF) && !h.read {
			err = io.EOF // as net/http has it, which kube-apiserver's clients see
		}
		if err != nil {
			return nil, true, err
		}
		if resp.StatusCode == http.StatusSwitchingProtocols {
			return nil, true, fmt.Errorf("backend tried to switch protocol %q when %q was requested", resp.Header.Get("Upgrade"), "")
		}
		if resp.StatusCode >= 200 {
			h.left = -1
			return resp, true, nil
		}
		if resp.StatusCode < 100 {
			return nil, true, fmt.Errorf("malformed HTTP status code %q", resp.Status)
		}
		inform(w, resp)
	}
	return nil, true, errors.New("too many 1xx informational responses")
}

// inform passes an informational answer on.
func inform(w http.ResponseWriter, resp *http.Response) {
	if resp.StatusCode == http.StatusContinue {
		return // the body has been sent
	}
	h := w.Header()
	for name, values := range resp.Header {
		if h[name] == nil {
			h[name] = values
			defer delete(h, name)
		}
	}
	w.WriteHeader(resp.StatusCode)
}

// pass passes an answer on to the client.
func (f *forward) pass(w http.ResponseWriter, r *http.Request, l *held, resp *http.Response, buffer []byte) {
	whole := false
	defer func() {
		if !whole || resp.Close || l.reader.Buffered() > 0 || !l.release() {
			l.drop()
			return
		}
		l.lines.give(l.line)
	}()
	backend := resp.Body
	if err := f.check(resp); err != nil {
		f.fail(w, r, err)
		return
	}
	h := w.Header()
	for name, values := range resp.Header {
		if !frontproxy.HopByHop(name, resp.Header["Connection"]) {
			h[name] = append(h[name], values...)
		}
	}
	w.WriteHeader(resp.StatusCode)
	err := f.copy(w, resp, buffer)
	if err != nil {
		panic(http.ErrAbortHandler) // what there is of the answer must not be taken for all of it
	}
	whole = resp.Body == backend
	if len(resp.Trailer) > 0 {
		_ = http.NewResponseController(w).Flush() // so that there is no length, and the trailers can follow
		for name, values := range resp.Trailer {
			h[http.TrailerPrefix+name] = values
		}
	}
}

// copy copies the body of an answer. One of unknown length is sent on as it comes.
func (f *forward) copy(w http.ResponseWriter, resp *http.Response, buffer []byte) error {
	for {
		n, err := resp.Body.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return err
			}
			if resp.ContentLength < 0 && err == nil {
				if err := http.NewResponseController(w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
					return err
				}
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
