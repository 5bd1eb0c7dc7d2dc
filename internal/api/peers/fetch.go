package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/wire/frontproxy"
)

const (
	// fetchTimeout bounds asking a server for one document.
	fetchTimeout = 30 * time.Second
	// maxDocument bounds it, in bytes.
	maxDocument = 64 << 20
)

// itself is whom a server takes for this one when it is asked what it serves: everybody who is authenticated may know.
var itself = &user.DefaultInfo{Name: user.APIServerUser, UID: user.APIServerUser, Groups: []string{user.AllAuthenticated}}

// accept is a document of what a server serves itself. One that does not know of others ignores the profile.
const accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer"

// fetch asks the server at an address what it serves.
func (p *Roster) fetch(ctx context.Context, address string) (*server, error) {
	found := &server{address: address, serves: map[schema.GroupVersionResource]bool{}}
	for _, path := range []string{"/api", "/apis"} {
		groups, err := p.groups(ctx, address, path)
		if err != nil {
			return nil, err
		}
		for _, g := range groups {
			found.add(g)
		}
	}
	return found, nil
}

// add adds a group. That of the core is served, but is in another document than the others.
func (s *server) add(g apidiscoveryv2.APIGroupDiscovery) {
	for _, v := range g.Versions {
		for _, r := range v.Resources {
			s.serves[schema.GroupVersionResource{Group: g.Name, Version: v.Version, Resource: r.Resource}] = true
		}
	}
	if g.Name != "" {
		s.groups = append(s.groups, g)
	}
}

// groups asks for one document.
func (p *Roster) groups(ctx context.Context, address, path string) ([]apidiscoveryv2.APIGroupDiscovery, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	to := &url.URL{Scheme: "https", Host: address, Path: path}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	req.Header.Set(passedOn, "true")
	frontproxy.UserHeaders(itself, req.Header.Add)
	resp, err := p.shared.RoundTrip(req)
	if err != nil {
		p.Metrics.passed(http.StatusServiceUnavailable, schema.GroupVersionResource{})
		return nil, err
	}
	defer resp.Body.Close()
	p.Metrics.passed(resp.StatusCode, schema.GroupVersionResource{})
	if resp.StatusCode != http.StatusOK || !strings.Contains(resp.Header.Get("Content-Type"), "as=APIGroupDiscoveryList") {
		return nil, fmt.Errorf("%s answers %s, %q", to, strconv.Itoa(resp.StatusCode), resp.Header.Get("Content-Type"))
	}
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxDocument)).Decode(&list); err != nil {
		return nil, fmt.Errorf("%s: %w", to, err)
	}
	return list.Items, nil
}
