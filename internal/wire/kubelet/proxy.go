package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/kanzen-io/kanzen/internal/wire/upgrade"
)

// flushEvery is how long bodies of proxied answers wait for more, unless their length is unknown: those do not wait.
const flushEvery = 200 * time.Millisecond

// errDestination refuses destinations that could be the server itself or its host's services: loopback, link-local,
// unspecified and multicast addresses.
var errDestination = errors.New("address not allowed")

// allowed reports whether clients may be led to an address.
func allowed(ip net.IP) bool { return ip != nil && ip.IsGlobalUnicast() }

// allowDestination refuses to connect to an address that is not allowed, whatever name it was looked up by.
func allowDestination(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if !allowed(net.ParseIP(host)) {
		return errDestination
	}
	return nil
}

// allowedHost refuses a host of which any address is not allowed, and returns its addresses.
func allowedHost(ctx context.Context, host string) ([]net.IPAddr, error) {
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return nil, err
	}
	if len(ips) == 0 {
		return nil, errors.New("no addresses for hostname")
	}
	for _, ip := range ips {
		if !allowed(ip.IP) {
			return nil, errDestination
		}
	}
	return ips, nil
}

// checked returns a dialer to addresses that are allowed. One that is given (of an egress selector, perhaps through a proxy) gets an
// address and no name: the name could lead elsewhere by the time, or at the place, that it is looked up again.
func checked(dial utilnet.DialFunc) utilnet.DialFunc {
	if dial == nil {
		return (&net.Dialer{Control: allowDestination}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		ips, err := allowedHost(ctx, host)
		if err != nil {
			return nil, err
		}
		var failed []error
		for _, ip := range ips {
			conn, err := dial(ctx, network, net.JoinHostPort(ip.IP.String(), port))
			if err == nil {
				return conn, nil
			}
			failed = append(failed, err)
		}
		return nil, errors.Join(failed...)
	}
}

// ProxyNode proxies to the kubelet of a node, or to another port of it. The id is NAME, NAME:PORT or SCHEME:NAME:PORT.
func (s *Server) ProxyNode(w http.ResponseWriter, r *http.Request, id, path string) error {
	scheme, name, port, ok := utilnet.SplitSchemeNamePort(id)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid node request %q", id))
	}
	l, err := s.locate(r.Context(), name)
	if err != nil {
		return err
	}
	if _, err := allowedHost(r.Context(), l.host); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if port == "" || port == l.port {
		return s.proxy(w, r, s.proxied, &url.URL{Scheme: "https", Host: net.JoinHostPort(l.host, l.port), Path: path})
	}
	return s.proxy(w, r, s.workloads, &url.URL{Scheme: scheme, Host: net.JoinHostPort(l.host, port), Path: path})
}

// ProxyPod proxies to a port of a pod: the port named, or the first that it declares.
func (s *Server) ProxyPod(w http.ResponseWriter, r *http.Request, p *corev1.Pod, scheme, port, path string) error {
	for _, c := range p.Spec.Containers {
		if port == "" && len(c.Ports) > 0 {
			port = fmt.Sprint(c.Ports[0].ContainerPort)
		}
	}
	ip := ""
	if len(p.Status.PodIPs) > 0 {
		ip = p.Status.PodIPs[0].IP
	}
	if !allowed(net.ParseIP(ip)) {
		return apierrors.NewBadRequest(errDestination.Error())
	}
	host := net.JoinHostPort(ip, port)
	if port == "" {
		host = strings.TrimSuffix(host, ":")
	}
	return s.proxy(w, r, s.workloads, &url.URL{Scheme: scheme, Host: host, Path: path})
}

// ProxyService proxies to an endpoint of a service.
func (s *Server) ProxyService(w http.ResponseWriter, r *http.Request, scheme, endpoint, path string) error {
	return s.proxy(w, r, s.workloads, &url.URL{Scheme: scheme, Host: endpoint, Path: path})
}

// proxy passes a request to another server, and its answer back: with links that lead through this server.
func (s *Server) proxy(w http.ResponseWriter, r *http.Request, to *backend, u *url.URL) error {
	leave, err := s.streams.enter()
	if err != nil {
		return err
	}
	defer leave()
	if u.Scheme == "" {
		u.Scheme = "http"
	}
	// Segments such as ".." are resolved below the root of the destination.
	u.Path = utilnet.JoinPreservingTrailingSlash("", u.Path)
	if upgrade.Requested(r) {
		return to.Serve(w, r, upgrade.Outgoing(r, u))
	}
	u.RawQuery = r.URL.RawQuery
	if !strings.HasSuffix(u.Path, "/") && strings.HasSuffix(r.URL.Path, "/") {
		u.Path += "/"
	}
	if u.Path == "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		toRoot(w, r)
		return nil
	}
	s.forward(w, r, to, u)
	return nil
}

// toRoot redirects to the same path with a slash, below which relative links work.
func toRoot(w http.ResponseWriter, r *http.Request) {
	location := r.URL.Path + "/"
	if r.URL.RawQuery != "" {
		location += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", location)
	w.WriteHeader(http.StatusMovedPermanently)
}

// forward passes a request on that changes no protocol.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, to *backend, u *url.URL) {
	links := newLinks(r.URL, u)
	if u.Path == "" {
		u.Path = "/"
	}
	p := httputil.ReverseProxy{
		Transport:     to.transport,
		FlushInterval: flushEvery,
		ErrorLog:      stdlog.New(io.Discard, "", 0), // of bodies that broke off: the client sees it
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL, pr.Out.Host = u, pr.In.Host
			pr.Out.URL.RawQuery = pr.In.URL.RawQuery // also what is no query to Go
			for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if values := pr.In.Header[name]; values != nil {
					pr.Out.Header[name] = slices.Clone(values) // of proxies in front
				}
			}
			utilnet.AppendForwardedForHeader(pr.Out)
			links.describe(pr.Out)
		},
		ModifyResponse: func(resp *http.Response) error {
			for _, name := range []string{"Credentials", "Headers", "Methods", "Origin"} {
				resp.Header.Del("Access-Control-Allow-" + name) // who may use this server is its own concern
			}
			return links.rewrite(resp)
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			var st apierrors.APIStatus
			if !errors.As(err, &st) {
				err = apierrors.NewServiceUnavailable(fmt.Sprintf("error trying to reach service: %v", err))
			}
			s.cfg.WriteError(w, r, err)
		},
	}
	p.ServeHTTP(w, r)
}
