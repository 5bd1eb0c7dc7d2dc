package kanzentest

import (
	"net"
	"net/http"
	"strings"
)

// webhooksBy serves the webhooks of services by a transport to a handler in this process.
func webhooksBy(to http.RoundTripper) func(host string) http.RoundTripper {
	return func(host string) http.RoundTripper {
		name, _, err := net.SplitHostPort(host)
		if err != nil || !strings.HasSuffix(name, ".svc") {
			return nil // a URL is called over the network
		}
		return to
	}
}
