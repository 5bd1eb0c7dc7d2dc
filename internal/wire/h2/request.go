package h2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
)

// newStream makes the stream of a request. The request's form was judged by the Framer: pseudo fields come first and once, names are lower
// case, values are valid.
func (c *conn) newStream(f *http2.MetaHeadersFrame) (*stream, error) {
	malformed := streamError(f.StreamID, http2.ErrCodeProtocol)
	method, scheme, path := f.PseudoValue("method"), f.PseudoValue("scheme"), f.PseudoValue("path")
	authority := f.PseudoValue("authority")
	switch {
	case f.PseudoValue("protocol") != "":
		return nil, malformed // extended CONNECT, which the settings do not offer
	case method == http.MethodConnect:
		if path != "" || scheme != "" || authority == "" {
			return nil, malformed
		}
	case method == "" || path == "" || scheme != "https" && scheme != "http":
		return nil, malformed
	}
	header := fieldsOf(f)
	host, ok := hostOf(authority, header)
	if !ok {
		return nil, malformed
	}
	target, err := targetOf(method, host, path)
	if err != nil {
		return nil, malformed
	}
	st := &stream{c: c, id: f.StreamID, handle: c.handler.ServeHTTP, ended: f.StreamEnded(), declared: -1,
		inflow: newInflow(c.server.StreamWindow), outflow: outflow(c.window)}
	st.answer = response{st: st, head: method == http.MethodHead, declared: -1}
	st.ctx, st.cancel = context.WithCancel(c.ctx)
	r := http.Request{
		Method: method, URL: target, RequestURI: path, Host: host, Header: header, RemoteAddr: c.remote,
		Proto: "HTTP/2.0", ProtoMajor: 2, Trailer: announced(header), Body: http.NoBody,
	}
	if method == http.MethodConnect {
		r.RequestURI = host // as in HTTP/1.1
	}
	if scheme == "https" {
		r.TLS = c.state
	}
	st.expect(&r)
	st.request = r.WithContext(st.ctx)
	if f.Truncated {
		st.handle = tooLong
	} else if err := connectionSpecific(header); err != nil {
		st.handle = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, err.Error(), http.StatusBadRequest) }
	}
	st.limit()
	return st, nil
}

// expect gives the request a body, if one follows.
func (st *stream) expect(r *http.Request) {
	continues := httpguts.HeaderValuesContainsToken(r.Header["Expect"], "100-continue")
	if continues {
		delete(r.Header, "Expect")
	}
	if st.ended {
		return
	}
	r.ContentLength = -1
	if length, ok := r.Header["Content-Length"]; ok {
		n, err := strconv.ParseUint(length[0], 10, 63)
		if err != nil {
			n = 0
		}
		r.ContentLength = int64(n)
	}
	st.declared = r.ContentLength
	st.body = newBody(st)
	st.body.expects = continues
	r.Body = st.body
}

// limit sets the deadlines that net/http has for the whole request.
func (st *stream) limit() {
	if limit := st.c.server.http.ReadTimeout; limit > 0 && st.body != nil {
		st.reading = time.AfterFunc(limit, st.body.expire)
	}
	if limit := st.c.server.http.WriteTimeout; limit > 0 {
		st.writing = time.AfterFunc(limit, st.expire)
	}
}

// expire is the end of the time that the answer may take.
func (st *stream) expire() { st.fail(http2.ErrCodeInternal, os.ErrDeadlineExceeded) }

// whole says whether as much of a body has arrived as was declared: io.EOF if so.
func whole(declared, got int64) error {
	if declared >= 0 && declared != got {
		return fmt.Errorf("request declared a Content-Length of %d but only wrote %d bytes", declared, got)
	}
	return io.EOF
}

// fieldsOf returns the header of a request.
func fieldsOf(f *http2.MetaHeadersFrame) http.Header {
	fields := f.RegularFields()
	header := make(http.Header, len(fields))
	values := make([]string, len(fields)) // one allocation for those of all fields
	for i, field := range fields {
		key := canonical(field.Name)
		if before := header[key]; before != nil {
			header[key] = append(before, field.Value)
			continue
		}
		values[i] = field.Value
		header[key] = values[i : i+1 : i+1]
	}
	if cookies := header["Cookie"]; len(cookies) > 1 {
		header["Cookie"] = []string{strings.Join(cookies, "; ")}
	}
	return header
}

// hostOf returns the host that a request is for. ok: it is valid, and its two names agree.
func hostOf(authority string, header http.Header) (host string, ok bool) {
	switch named := header["Host"]; {
	case len(named) > 1 || len(named) == 1 && authority != "" && named[0] != authority:
		return "", false
	case len(named) == 1:
		authority = named[0]
		delete(header, "Host")
	}
	if strings.IndexByte(authority, '@') >= 0 || authority != "" && !httpguts.ValidHostHeader(authority) {
		return "", false
	}
	return authority, true
}

// targetOf returns the URL of a request.
func targetOf(method, host, path string) (*url.URL, error) {
	if method == http.MethodConnect {
		return &url.URL{Host: host}, nil
	}
	if path[0] != '/' && path != "*" {
		return nil, errors.New("bad path")
	}
	return url.ParseRequestURI(path)
}

// announced returns the trailers that a request announces, without values yet; nil: none.
func announced(header http.Header) http.Header {
	lists := header["Trailer"]
	if lists == nil {
		return nil
	}
	delete(header, "Trailer")
	var trailer http.Header
	for _, list := range lists {
		for key := range strings.SplitSeq(list, ",") {
			switch key = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(key)); key {
			case "Transfer-Encoding", "Trailer", "Content-Length":
			default:
				if trailer == nil {
					trailer = http.Header{}
				}
				trailer[key] = nil
			}
		}
	}
	return trailer
}

// connectionSpecific says why a header must not be in a request of HTTP/2 (RFC 9113, section 8.2.2).
func connectionSpecific(header http.Header) error {
	for _, key := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade"} {
		if _, ok := header[key]; ok {
			return fmt.Errorf("request header %q is not valid in HTTP/2", key)
		}
	}
	if te := header["Te"]; len(te) > 1 || len(te) == 1 && te[0] != "trailers" && te[0] != "" {
		return errors.New(`request header "TE" may only be "trailers" in HTTP/2`)
	}
	return nil
}

// tooLong answers a request whose headers are longer than allowed.
func tooLong(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
	_, _ = io.WriteString(w, "<h1>HTTP Error 431</h1><p>Request Header Field(s) Too Large</p>")
}
