package aggregator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/internal/wire/frontproxy"
)

// How backends are checked: at least every probeEvery, and sooner after a failure.
const (
	firstProbe   = 100 * time.Millisecond
	probeEvery   = 30 * time.Second
	probeTimeout = 5 * time.Second
	// attempts is the number of requests of which one must succeed: they may lead to different endpoints. The others are
	// made if the first has failed, or has not succeeded within hesitation.
	attempts, hesitation = 5, time.Second
	// abreast bounds the concurrent checks of one backend.
	abreast = 5
)

// itself is the user of this server's requests to extension servers: one who may see everything.
var itself = &user.DefaultInfo{Name: "system:kube-aggregator", Groups: []string{user.SystemPrivilegedGroup}}

// errUnavailable makes the loop check again soon.
var errUnavailable = errors.New("not available")

// check checks the backend, and writes the conditions of its APIServices.
func (b *backend) check(ctx context.Context) error {
	services := b.all()
	if len(services) == 0 {
		return nil
	}
	b.written.prune(services)
	if c := b.server.routable(ctx, b.key); c != nil {
		for _, v := range services {
			if err := b.write(ctx, v, *c); err != nil {
				return err
			}
		}
		return nil // what it depends on wakes the loop
	}
	// If the backend cannot even be reached, this is so for all of its groups and versions.
	first := b.try(ctx, services[0])
	results := make([]error, len(services))
	results[0] = first
	slots := make(chan struct{}, abreast)
	var wg sync.WaitGroup
	for n, v := range services[1:] {
		if unreached := (*unreachedError)(nil); errors.As(first, &unreached) {
			results[n+1] = &unreachedError{unreached.address, pathOf(v.GroupVersion), unreached.cause}
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			results[n+1] = b.try(ctx, v)
			<-slots
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var failed error
	for n, v := range services {
		c := passed()
		if results[n] != nil {
			c, failed = failedCheck(results[n]), errUnavailable
		}
		if err := b.write(ctx, v, c); err != nil {
			failed = err
		}
	}
	if errors.Is(failed, errUnavailable) {
		b.forget()
	}
	return failed
}

// try reports whether one of several attempts to read a discovery document succeeds.
func (b *backend) try(ctx context.Context, v *service) error {
	if b.broken != nil {
		return b.broken
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan error, attempts)
	attempt := func() { results <- b.ask(ctx, v) }
	go attempt()
	timer := b.server.Clock.NewTimer(hesitation)
	defer timer.Stop()
	var last error
	for begun, ended := 1, 0; ended < begun; {
		select {
		case last = <-results:
			if last == nil {
				return nil
			}
			ended++
		case <-timer.C():
		}
		if begun == 1 {
			begun = attempts
			for range attempts - 1 {
				go attempt()
			}
		}
	}
	return last
}

// unreachedError is a failure to get any answer.
type unreachedError struct {
	address, path string
	cause         error
}

// Error is part of error.
func (e *unreachedError) Error() string {
	u := "https://" + e.address + e.path
	return fmt.Sprintf("failing or missing response from %s: %v", u, &url.Error{Op: "Get", URL: u, Err: e.cause})
}

// ask reads the discovery document of a group and version once.
func (b *backend) ask(ctx context.Context, v *service) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	address, err := b.address(ctx)
	if err != nil {
		return err
	}
	path := pathOf(v.GroupVersion)
	resp, err := b.send(ctx, address, path, nil)
	if err != nil {
		return &unreachedError{address, path, stable(err)}
	}
	_ = resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode >= 300 {
		u := "https://" + address + path
		return fmt.Errorf("failing or missing response from %s: bad status from %s: %d", u, u, resp.StatusCode)
	}
	return nil
}

// send sends a GET request of this server itself.
func (b *backend) send(ctx context.Context, address, path string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+path, nil)
	if err != nil {
		return nil, err
	}
	if header != nil {
		req.Header = header.Clone()
	}
	frontproxy.UserHeaders(itself, req.Header.Add)
	return b.shared.RoundTrip(req)
}

// stable removes from an error what differs at each attempt, such as the port on this side of the connection, so that
// the same failure is the same condition.
func stable(err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Source != nil {
		same := *op
		same.Source = nil
		return &same
	}
	return err
}

// passed is the condition of an APIService whose checks succeed.
func passed() apiregistrationv1.APIServiceCondition {
	return apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, Reason: "Passed", Message: "all checks passed",
	}
}

func failedCheck(err error) apiregistrationv1.APIServiceCondition {
	return unfit("FailedDiscoveryCheck", "%v", err)
}

// unfit is the condition of an APIService that is not available.
func unfit(reason, format string, args ...any) apiregistrationv1.APIServiceCondition {
	return apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: falseStatus, Reason: reason, Message: fmt.Sprintf(format, args...),
	}
}

const falseStatus = apiregistrationv1.ConditionFalse
