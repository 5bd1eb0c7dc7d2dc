package kubelet

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/wire/upgrade"
)

// maxError bounds the text of a kubelet's error.
const maxError = 50000

// Log serves the log of a container. A pod without a node has none.
func (s *Server) Log(w http.ResponseWriter, r *http.Request, p *corev1.Pod, o *corev1.PodLogOptions) error {
	leave, err := s.streams.enter()
	if err != nil {
		return err
	}
	defer leave()
	to, usage := s.kubelets, "enforce_tls"
	if o.InsecureSkipTLSVerifyBackend {
		to, usage = s.unverified, "skip_tls_allowed"
	}
	s.metrics.logs.WithLabelValues(usage).Inc()
	container, err := containerOf(p, o.Container)
	if err != nil {
		return err
	}
	if p.Spec.NodeName == "" {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	l, err := s.locate(r.Context(), p.Spec.NodeName)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	body, err := s.openLog(ctx, to, l.url(logQuery(o), "containerLogs", p.Namespace, p.Name, container), p.Name)
	if err != nil {
		return err
	}
	defer body.Close()
	if isWebSocket(r) {
		s.logOverSocket(w, r, body, cancel)
		return nil
	}
	writeLog(w, body, o.Follow)
	return nil
}

func logQuery(o *corev1.PodLogOptions) url.Values {
	q := url.Values{}
	for name, on := range map[string]bool{"follow": o.Follow, "previous": o.Previous, "timestamps": o.Timestamps} {
		if on {
			q.Set(name, "true")
		}
	}
	for name, n := range map[string]*int64{"sinceSeconds": o.SinceSeconds, "tailLines": o.TailLines, "limitBytes": o.LimitBytes} {
		if n != nil {
			q.Set(name, strconv.FormatInt(*n, 10))
		}
	}
	if o.SinceTime != nil {
		q.Set("sinceTime", o.SinceTime.Format(time.RFC3339))
	}
	if o.Stream != nil {
		q.Set("stream", *o.Stream)
	}
	return q
}

// openLog asks a kubelet for a log. Redirects are not followed.
func (s *Server) openLog(ctx context.Context, to *backend, u *url.URL, pod string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: to.transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("redirects forbidden")
	}}
	resp, err := client.Do(req)
	if err != nil {
		if resp != nil {
			_ = resp.Body.Close()
		}
		if wrong := (*tls.CertificateVerificationError)(nil); errors.As(err, &wrong) {
			s.metrics.logFailures.Inc()
		}
		return nil, err
	}
	if resp.StatusCode >= http.StatusOK && resp.StatusCode <= http.StatusPartialContent {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	switch resp.StatusCode {
	case http.StatusInternalServerError:
		return nil, apierrors.NewInternalError(errors.New(string(text)))
	case http.StatusBadRequest:
		return nil, apierrors.NewBadRequest(string(text))
	}
	return nil, apierrors.NewGenericServerResponse(resp.StatusCode, "", corev1.Resource("pods/log"), pod, string(text), 0, false)
}

// writeLog sends a log. What is followed is sent at once.
func writeLog(w http.ResponseWriter, body io.Reader, follow bool) {
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	_ = control.Flush()
	to := io.Writer(w)
	if follow {
		to = flusher{w, control}
	}
	_ = upgrade.Copy(to, body, func() {}) // the header is out: an error can only cut it off
}

// flusher sends what is written at once.
type flusher struct {
	io.Writer
	control *http.ResponseController
}

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if err == nil {
		err = f.control.Flush()
	}
	return n, err
}

// Protocols of logs over websockets. Without one, messages are binary.
const (
	logBinary = "binary.k8s.io"
	logBase64 = "base64.binary.k8s.io"
)

// logOverSocket sends a log as messages. gone is called when the client is gone.
func (s *Server) logOverSocket(w http.ResponseWriter, r *http.Request, body io.Reader, gone func()) {
	sock, err := s.accept(w, r, logBinary, logBase64)
	if err != nil {
		return // answered
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer gone()
		sock.discard()
	})
	defer reading.Wait()
	defer sock.Close()
	to := messages{sock, websocket.BinaryMessage}
	if sock.Subprotocol() == logBase64 {
		to.kind = websocket.TextMessage
	}
	if _, err := to.Write(nil); err != nil { // tells the client that the log begins
		return
	}
	if to.kind == websocket.TextMessage {
		err = upgrade.Copy(base64Messages{to}, body, func() {})
	} else {
		err = upgrade.Copy(to, body, func() {})
	}
	if err == nil {
		sock.bye(websocket.CloseNormalClosure, "")
	}
}

// base64Messages encodes each message by itself.
type base64Messages struct{ messages }

func (m base64Messages) Write(p []byte) (int, error) {
	if _, err := m.messages.Write([]byte(base64.StdEncoding.EncodeToString(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
