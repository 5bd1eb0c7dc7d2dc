package matrix

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"
)

// patience is how long an answer may take.
const patience = 15 * time.Second

// asked is a server that is asked, one request after the other.
type asked struct {
	name, address string
	conn          net.Conn
	r             *bufio.Reader
	fresh         bool                      // nothing was asked on the connection yet
	made          map[string]map[string]any // what was sent to make the world, by path
	readers       []*asked                  // further connections
	known         map[string]*object        // what was listed the last time, by its bytes
}

// answer is what came back.
type answer struct {
	Code   int    `json:"code"`
	Reason string `json:"reason,omitempty"`
	// Message is kept of refusals, because it says what was asked for as the
	// authorizer has understood it.
	Message string `json:"message,omitempty"`
	// Object says what came with success: its kind and names.
	Object string `json:"object,omitempty"`
	// Text is the beginning of the message, to show.
	Text string `json:"text,omitempty"`
}

func (s *asked) close() {
	if s.conn != nil {
		_ = s.conn.Close() // it is of no use any more
		s.conn = nil
	}
}

func (s *asked) dial() error {
	if s.conn != nil {
		s.fresh = false
		return nil
	}
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", s.address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		return err
	}
	s.conn, s.r, s.fresh = c, bufio.NewReader(c), true
	return nil
}

// ask sends a request as it is, byte by byte, and reads the answer. What is
// asked on a connection that the server has closed meanwhile is asked again.
func (s *asked) ask(q *request, body string) (answer, error) {
	for {
		if err := s.dial(); err != nil {
			return answer{}, err
		}
		a, again, err := s.once(q, body)
		if err == nil {
			return a, nil
		}
		s.close()
		switch {
		case s.fresh && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
			return answer{Reason: "the connection was closed"}, nil
		case !again || s.fresh:
			return answer{}, fmt.Errorf("%s: %s %s: %w", s.name, q.Method, q.Target, err)
		}
	}
}

func (s *asked) once(q *request, body string) (a answer, again bool, err error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: server\r\nUser-Agent: matrix\r\n", q.Method, q.Target)
	if q.Header["Accept"] == "" {
		b.WriteString("Accept: application/json\r\n")
	}
	if q.User != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", q.User)
	}
	for _, name := range sortedKeys(q.Header) {
		fmt.Fprintf(&b, "%s: %s\r\n", name, q.Header[name])
	}
	if body != "" || q.Method != http.MethodGet {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	if err := s.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return a, true, err
	}
	if _, err := s.conn.Write(b.Bytes()); err != nil {
		return a, true, err
	}
	if _, err := s.r.Peek(1); err != nil {
		return a, !errors.As(err, new(net.Error)), err
	}
	resp, err := http.ReadResponse(s.r, &http.Request{Method: q.Method})
	if err != nil {
		return a, false, err
	}
	a = s.read(q, resp)
	return a, false, nil
}

// read takes an answer in. Of a watch only its beginning is of interest.
func (s *asked) read(q *request, resp *http.Response) answer {
	a := answer{Code: resp.StatusCode}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.StatusCode == http.StatusOK && (q.Method == http.MethodConnect || streams(q)) {
		s.close()
		return a
	}
	if err := s.conn.SetReadDeadline(time.Now().Add(patience / 3)); err != nil {
		s.close()
		return a
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.Close {
		s.close()
	}
	if err != nil {
		a.Object = "a stream"
	}
	if resp.StatusCode >= 300 {
		a.Text = string(data[:min(len(data), 200)])
	}
	if l := resp.Header.Get("Location"); l != "" && resp.StatusCode/100 == 3 {
		a.Reason = "to " + l
	}
	var o struct {
		Kind, Reason, Message string
		Metadata              struct{ Name, Namespace string }
		Items                 []struct {
			Metadata struct{ Name, Namespace string }
		}
	}
	decode := json.Unmarshal
	if strings.Contains(resp.Header.Get("Content-Type"), "yaml") {
		decode = func(data []byte, into any) error { return yaml.Unmarshal(data, into) }
	}
	if decode(data, &o) != nil {
		return a
	}
	switch {
	case o.Kind == "Status" && resp.StatusCode >= 300:
		a.Reason, a.Text = o.Reason, o.Message[:min(len(o.Message), 200)]
		if resp.StatusCode == http.StatusForbidden {
			a.Message = refusal(o.Message)
		}
	case o.Items != nil:
		var names []string
		for _, i := range o.Items {
			if n := i.Metadata.Namespace + "/" + uuid.ReplaceAllString(i.Metadata.Name, "<uid>"); ofWorld(n) {
				names = append(names, n)
			}
		}
		slices.Sort(names)
		a.Object = fmt.Sprint(o.Kind, " ", names)
	case o.Kind != "":
		a.Object = o.Kind + " " + o.Metadata.Namespace + "/" + uuid.ReplaceAllString(o.Metadata.Name, "<uid>") // of an object without a name
	}
	return a
}

// refusal leaves out of a message what is chance or wording.
func refusal(message string) string {
	message, _, _ = strings.Cut(message, ": rbac: RBAC: ")
	return message[:min(len(message), 300)]
}

// ofWorld says that a name is of those that the requests make or meet, so that
// lists are compared by them alone.
func ofWorld(key string) bool {
	ns, name, _ := strings.Cut(key, "/")
	return ns == "ns1" || ns == "ns2" || ns == "" && (name == "a" || strings.HasPrefix(name, "a.") || strings.HasPrefix(name, "new") || name == "ns1" || name == "ns2")
}

// streams says that the answer may go on for ever.
func streams(q *request) bool {
	plain, err := url.PathUnescape(q.Target)
	if err != nil {
		plain = q.Target
	}
	path, query, _ := strings.Cut(strings.ToLower(plain), "?")
	return strings.Contains(path, "watch") || (q.Method == http.MethodGet || q.Method == http.MethodHead) && (strings.Contains(query, "watch") || strings.Contains(query, "follow"))
}

// do sends a document as the administrator and expects success, or one of the codes.
func (s *asked) do(method, path, contentType string, body any, but ...int) (answer, error) {
	q := &request{User: "admin", Method: method, Target: path, Header: map[string]string{}}
	data := ""
	if body != nil {
		data = encode(body)
		q.Header["Content-Type"] = contentType
	}
	a, err := s.ask(q, data)
	if err == nil && a.Code >= 300 && !slices.Contains(but, a.Code) {
		err = fmt.Errorf("%s: %s %s: %d %s\n%s", s.name, method, path, a.Code, a.Text, data)
	}
	return a, err
}

// raw reads a document of any length. kube-apiserver puts off who asks for
// what its caches have not loaded yet.
func (s *asked) raw(path string) ([]byte, error) {
	for try := 0; ; try++ {
		data, code, err := s.get(path)
		switch {
		case err != nil:
			return nil, err
		case code == http.StatusTooManyRequests && try < 100:
			time.Sleep(100 * time.Millisecond)
		case code != http.StatusOK:
			return nil, fmt.Errorf("%s: GET %s: %d %.300s", s.name, path, code, data)
		default:
			return data, nil
		}
	}
}

func (s *asked) get(path string) (data []byte, code int, err error) {
	if err := s.dial(); err != nil {
		return nil, 0, err
	}
	if err := s.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, 0, err
	}
	if _, err := fmt.Fprintf(s.conn, "GET %s HTTP/1.1\r\nHost: server\r\nUser-Agent: matrix\r\nAccept: application/json\r\nAuthorization: Bearer admin\r\n\r\n", path); err != nil {
		s.close()
		return nil, 0, err
	}
	resp, err := http.ReadResponse(s.r, nil)
	if err != nil {
		s.close()
		return nil, 0, err
	}
	defer resp.Body.Close()
	data, err = io.ReadAll(resp.Body)
	if err != nil || resp.Close {
		s.close()
	}
	return data, resp.StatusCode, err
}

func (s *asked) document(path string, into any) error {
	data, err := s.raw(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

func sortedKeys[T any](m map[string]T) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
