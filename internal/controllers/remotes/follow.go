package remotes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/wire/apiclient"
)

const (
	// catalogEvery is how often the followed resources are compared with the catalog, if that has changed.
	catalogEvery = time.Second
	// firstPause is the pause after a list or watch that has ended soon, longestPause that after many. One that lasted
	// longer than steady is no failure.
	firstPause, longestPause, steady = 500 * time.Millisecond, 30 * time.Second, 10 * time.Second
	// watchFor is how long a watch is asked for; it is cut off watchGrace later.
	watchFor, watchGrace = 8 * time.Minute, 30 * time.Second
	// pageSize is how many objects are listed at a time, maxObjects bounds those of one resource.
	pageSize, maxObjects = 500, 500_000
	// maxEvent bounds an event of a watch, in bytes.
	maxEvent = 8 << 20
)

// Events are called for the objects of one resource, one after the other.
type Events struct {
	// Listed reports all objects there are, at the beginning and whenever events may have been missed.
	Listed func(objects []Object)
	// Put reports a new or changed object, Deleted one that is gone.
	Put, Deleted func(o Object)
	// End is called once, when the resource is not followed any more.
	End func()
}

// Follower follows resources of extension servers.
type Follower struct {
	Client  *Client
	Catalog *catalog.Live
	// Chosen reports whether a resource is followed.
	Chosen func(k *Kind) bool
	// Begin returns the events of a resource, before it is listed.
	Begin func(k *Kind) Events
	Clock clock.WithTicker
	Guard *guard.Guard
	Log   *slog.Logger
}

// following is a resource that is followed.
type following struct {
	gvr  schema.GroupVersionResource
	end  context.CancelFunc
	done chan struct{} // closed when it has ended
}

// Run follows the chosen resources until ctx ends. More becomes ready to read when Chosen may have changed its mind; it
// may be nil.
func (f *Follower) Run(ctx context.Context, more <-chan struct{}) {
	var running sync.WaitGroup
	defer running.Wait()
	all := map[schema.GroupResource]*following{}
	tick := f.Clock.NewTicker(catalogEvery)
	defer tick.Stop()
	for seen := int64(-1); ; {
		if now := f.Catalog.Now(); now.Changes() != seen {
			seen = now.Changes()
			if !f.compare(ctx, Kinds(now), all, &running) {
				seen = -1
			}
		}
		select {
		case <-tick.C():
		case <-more:
			seen = -1
		case <-ctx.Done():
			return
		}
	}
}

// compare begins to follow resources that are new, and stops following those that are not chosen any more. It returns
// false if that is not complete, because a resource is still being left in another version.
func (f *Follower) compare(ctx context.Context, kinds map[schema.GroupResource]*Kind, all map[schema.GroupResource]*following, running *sync.WaitGroup) bool {
	for gr, is := range all {
		if k := kinds[gr]; k == nil || k.GroupVersionResource != is.gvr || !f.Chosen(k) {
			is.end()
		}
		select {
		case <-is.done:
			delete(all, gr)
		default:
		}
	}
	complete := true
	for gr, k := range kinds {
		if is := all[gr]; is != nil || !f.Chosen(k) {
			complete = complete && (is == nil || is.gvr == k.GroupVersionResource)
			continue
		}
		inner, end := context.WithCancel(ctx)
		is := &following{k.GroupVersionResource, end, make(chan struct{})}
		all[gr] = is
		events := f.Begin(k)
		running.Go(func() {
			defer close(is.done)
			defer end()
			f.Guard.Keep(inner, "following "+gr.String(), func(ctx context.Context) { f.follow(ctx, k, &events) })
			events.End()
		})
	}
	return complete
}

// follow lists and watches a resource until ctx ends.
func (f *Follower) follow(ctx context.Context, k *Kind, e *Events) {
	version, failures := "", 0
	for ctx.Err() == nil {
		began, pause := f.Clock.Now(), catalogEvery
		if r := f.Catalog.Now().Remote(k.GroupVersion()); r != nil && current(r) {
			var err error
			if version, err = f.Client.once(ctx, k, version, e); err != nil && ctx.Err() == nil {
				f.Log.Debug("the objects of an extension server cannot be followed, trying again", "resource", k.GroupResource(), "error", err)
			}
			if f.Clock.Since(began) > steady {
				failures = 0
			}
			pause = min(firstPause<<min(failures, 10), longestPause)
			failures++
		}
		select {
		case <-f.Clock.After(pause):
		case <-ctx.Done():
		}
	}
}

// once lists a resource, unless there is a version to go on from, and watches it until the watch ends. It returns the
// version to go on from; "": it must be listed anew.
func (c *Client) once(ctx context.Context, k *Kind, version string, e *Events) (string, error) {
	if version == "" {
		objects, listed, err := c.List(ctx, k)
		if err != nil {
			return "", err
		}
		e.Listed(objects)
		version = listed
	}
	return c.watch(ctx, k, version, e)
}

// Revision returns the current resourceVersion of a resource.
func (c *Client) Revision(ctx context.Context, k *Kind) (string, error) {
	var page metav1.PartialObjectMetadataList
	err := c.page(ctx, k, url.Values{"limit": {"1"}}, &page)
	return page.ResourceVersion, err
}

// List returns all objects of a resource, and their version.
func (c *Client) List(ctx context.Context, k *Kind) (out []Object, version string, err error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for {
		var page metav1.PartialObjectMetadataList
		if err := c.page(ctx, k, query, &page); err != nil {
			return nil, "", err
		}
		for n := range page.Items {
			o, err := k.objectOf(&page.Items[n])
			if err != nil {
				return nil, "", err
			}
			out = append(out, o)
		}
		if len(out) > maxObjects {
			return nil, "", fmt.Errorf("there are more than %d objects", maxObjects)
		}
		if page.Continue == "" {
			return out, page.ResourceVersion, nil
		}
		if len(page.Items) == 0 {
			return nil, "", errors.New("a page of a list is empty and not the last")
		}
		query.Set("continue", page.Continue)
	}
}

func (c *Client) page(ctx context.Context, k *Kind, query url.Values, page *metav1.PartialObjectMetadataList) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.do(ctx, http.MethodGet, k.path("", "")+"?"+query.Encode(), acceptMany, "", nil, page)
}

// watch reports events until the watch ends, and returns the version to go on from.
func (c *Client) watch(ctx context.Context, k *Kind, version string, e *Events) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, watchFor+watchGrace)
	defer cancel()
	query := url.Values{"watch": {"1"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {version}, "timeoutSeconds": {strconv.Itoa(int(watchFor.Seconds()))}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fakeAddress+k.path("", "")+"?"+query.Encode(), nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Accept", acceptOne)
	resp, err := c.rt.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
		return "", apiclient.Refusal(resp.StatusCode, body)
	}
	bounded := &io.LimitedReader{R: resp.Body}
	for events := json.NewDecoder(bounded); ; {
		bounded.N = maxEvent
		var event struct {
			Type   watch.EventType
			Object json.RawMessage
		}
		if err := events.Decode(&event); errors.Is(err, io.EOF) && bounded.N > 0 {
			return version, nil
		} else if err != nil {
			return "", err
		}
		if version, err = k.report(event.Type, event.Object, e); err != nil {
			return "", err
		}
	}
}

// report reports an event and returns its version.
func (k *Kind) report(t watch.EventType, object []byte, e *Events) (version string, err error) {
	if t == watch.Error {
		st := metav1.Status{}
		if err := json.Unmarshal(object, &st); err != nil {
			return "", err
		}
		return "", &apierrors.StatusError{ErrStatus: st}
	}
	var m metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &m); err != nil {
		return "", err
	}
	if t == watch.Bookmark {
		return m.ResourceVersion, nil
	}
	o, err := k.objectOf(&m)
	if err != nil {
		return "", err
	}
	switch t {
	case watch.Added, watch.Modified:
		e.Put(o)
	case watch.Deleted:
		e.Deleted(o)
	}
	return o.ResourceVersion, nil
}
