package kubelet

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/wire/upgrade"
)

// Channels of a websocket that carries a command, and the marker of a message that closes another channel.
const (
	channelStdin = iota
	channelStdout
	channelStderr
	channelError
	channelResize
	channelCount

	channelClose = 255
)

// Protocols of commands.
const (
	protocolSocket = "v5.channel.k8s.io" // of websockets that can close a channel
	protocolSPDY   = "v4.channel.k8s.io" // of SPDY streams with exit codes
)

// channels are those that a command uses. The error channel is always one of them.
type channels [channelCount]bool

// Exec runs a command in a container.
func (s *Server) Exec(w http.ResponseWriter, r *http.Request, p *corev1.Pod, o *corev1.PodExecOptions) error {
	q, c := commandQuery(o.Stdin, o.Stdout, o.Stderr, o.TTY)
	for _, arg := range o.Command {
		q.Add("command", arg)
	}
	return s.command(w, r, p, "exec", o.Container, q, c)
}

// Attach attaches to the process of a container.
func (s *Server) Attach(w http.ResponseWriter, r *http.Request, p *corev1.Pod, o *corev1.PodAttachOptions) error {
	q, c := commandQuery(o.Stdin, o.Stdout, o.Stderr, o.TTY)
	return s.command(w, r, p, "attach", o.Container, q, c)
}

// commandQuery returns the query of a kubelet's endpoint for commands.
func commandQuery(stdin, stdout, stderr, tty bool) (url.Values, channels) {
	q := url.Values{}
	for name, on := range map[string]bool{"input": stdin, "output": stdout, "error": stderr, "tty": tty} {
		if on {
			q.Set(name, "1")
		}
	}
	return q, channels{channelStdin: stdin, channelStdout: stdout, channelStderr: stderr, channelError: true, channelResize: tty}
}

func (s *Server) command(w http.ResponseWriter, r *http.Request, p *corev1.Pod, kind, container string, q url.Values, c channels) error {
	container, err := containerOf(p, container)
	if err != nil {
		return err
	}
	l, err := s.kubeletOf(r.Context(), p)
	if err != nil {
		return err
	}
	return s.serve(w, r, kind, s.cfg.NoTranslation, l, l.url(q, kind, p.Namespace, p.Name, container), func(u *url.URL) (bool, error) {
		if !asksFor(r, func(protocol string) bool { return protocol == protocolSocket }) {
			return false, nil
		}
		return true, s.translate(w, r, u, c)
	})
}

// PortForward forwards ports of a pod.
func (s *Server) PortForward(w http.ResponseWriter, r *http.Request, p *corev1.Pod, o *corev1.PodPortForwardOptions) error {
	l, err := s.kubeletOf(r.Context(), p)
	if err != nil {
		return err
	}
	q := url.Values{}
	if len(o.Ports) > 0 {
		var ports []string
		for _, n := range o.Ports {
			ports = append(ports, strconv.Itoa(int(n)))
		}
		q.Set("port", strings.Join(ports, ","))
	}
	return s.serve(w, r, "portforward", s.cfg.NoTunnels, l, l.url(q, "portForward", p.Namespace, p.Name), func(u *url.URL) (bool, error) {
		if !asksFor(r, isTunnel) {
			return false, nil
		}
		return true, s.tunnel(w, r, u)
	})
}

// serve serves a stream: what the kubelet speaks as it is, and all if asIs; otherwise through convert, which reports whether
// the request was its to serve.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, kind string, asIs bool, l *location, u *url.URL, convert func(*url.URL) (bool, error)) error {
	leave, err := s.streams.enter()
	if err != nil {
		return err
	}
	defer leave()
	switch {
	case asIs: // not counted: there was nothing to decide
	case l.sockets:
		s.metrics.sockets.WithLabelValues(kind, "proxied_to_kubelet").Inc()
	default:
		s.metrics.sockets.WithLabelValues(kind, "translated_at_apiserver").Inc()
		if done, err := convert(u); done {
			return err
		}
	}
	if !upgrade.Requested(r) {
		return apierrors.NewBadRequest("Upgrade request required")
	}
	return s.kubelets.Serve(w, r, upgrade.Outgoing(r, u))
}

// streamRequest is the server's own request for SPDY streams.
func streamRequest(ctx context.Context, u *url.URL, protocols ...string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {spdyProtocol}, headerProtocol: protocols}
	return req, nil
}

const (
	spdyProtocol   = "SPDY/3.1"
	headerProtocol = "X-Stream-Protocol-Version"
)

// speaksSPDY reports whether a kubelet changed to SPDY.
func speaksSPDY(h http.Header) bool {
	return strings.Contains(strings.ToLower(h.Get("Connection")), "upgrade") && strings.EqualFold(h.Get("Upgrade"), spdyProtocol)
}
