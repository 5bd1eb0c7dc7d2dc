//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/test/machine"
)

// The clients of a count write in this namespace.
const countedNamespace = "counted"

// createdPrefix begins the names of the objects that one of them creates.
const createdPrefix = "object-"

const (
	pause = 20 * time.Millisecond // between the requests of a client
	limit = 2 * time.Second       // for a request
)

// count is what clients of a server saw while something was done to it.
type count struct {
	what         string
	reads        calls
	writes       calls
	acknowledged int // writes that the server confirmed; all are found afterwards
	opened       int // how often the watch was opened
	relisted     int // how often the server did not know what came after the last event
	served       int // requests of the workload that were answered
}

// calls are those of one client.
type calls struct {
	good, failed int
	last         time.Time
	away         time.Duration // the longest time without an answer
	reasons      map[string]int
}

func (c *calls) answered(now time.Time) {
	if !c.last.IsZero() {
		c.away = max(c.away, now.Sub(c.last))
	}
	c.good, c.last = c.good+1, now
}

func (c *calls) refused(err error) {
	c.failed++
	if c.reasons == nil {
		c.reasons = map[string]int{}
	}
	c.reasons[err.Error()]++
}

// counter is a count that goes on.
type counter struct {
	maps                      typedcorev1.ConfigMapInterface
	stopClients, stopWatching context.CancelFunc
	clients, watcher          sync.WaitGroup

	mu      sync.Mutex
	count   count
	created []string       // confirmed
	value   int            // confirmed, of the object that is updated
	updated int            // how often it was
	tried   int            // the highest value that was sent
	seen    map[string]int // how often the watch saw an object appear
	faults  []error
}

// startCount starts a client that creates objects, one that updates an object, one that reads it, and one that watches all.
func startCount(ctx context.Context, what string, config *rest.Config) (*counter, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: countedNamespace}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	c := &counter{maps: client.CoreV1().ConfigMaps(countedNamespace), seen: map[string]int{}, count: count{what: what}}
	if err := c.maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return nil, err
	}
	if _, err := c.maps.Create(ctx, newMap("value", 0), metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	list, err := c.maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	ctx, c.stopWatching = context.WithCancel(ctx)
	c.watcher.Go(func() { c.watch(ctx, list.ResourceVersion) })
	asking, stop := context.WithCancel(ctx)
	c.stopClients = stop
	for _, request := range []func(context.Context, int){c.create, c.update, c.read} {
		c.clients.Go(func() { repeat(asking, request) })
	}
	return c, nil
}

func newMap(name string, value int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": strconv.Itoa(value)}}
}

// repeat calls a client's request again and again, until the context ends. A request that has begun comes to its end.
func repeat(ctx context.Context, request func(context.Context, int)) {
	for n := 1; ctx.Err() == nil; n++ {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		request(limited, n)
		cancel()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (c *counter) create(ctx context.Context, n int) {
	name := fmt.Sprintf("%s%06d", createdPrefix, n)
	_, err := c.maps.Create(ctx, newMap(name, n), metav1.CreateOptions{})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.count.writes.refused(err)
		return
	}
	c.count.writes.answered(time.Now())
	c.created = append(c.created, name)
}

func (c *counter) update(ctx context.Context, n int) {
	c.mu.Lock()
	c.tried = n
	c.mu.Unlock()
	_, err := c.maps.Update(ctx, newMap("value", n), metav1.UpdateOptions{})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.value = n
		c.updated++
	}
}

// read reads the value. It may not be older than what was confirmed before the request began.
func (c *counter) read(ctx context.Context, _ int) {
	c.mu.Lock()
	confirmed := c.value
	c.mu.Unlock()
	m, err := c.maps.Get(ctx, "value", metav1.GetOptions{})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.count.reads.refused(err)
		return
	}
	c.count.reads.answered(time.Now())
	if got, _ := strconv.Atoi(m.Data["value"]); got < confirmed || got > c.tried {
		c.faults = append(c.faults, fmt.Errorf("%d was read after %d had been confirmed, of %d sent", got, confirmed, c.tried))
	}
}

// watch sees objects appear, and goes on after the last event that it saw when its connection ends. A server that no longer knows what came after
// that makes it list all objects anew, as informers do.
func (c *counter) watch(ctx context.Context, revision string) {
	for ; ctx.Err() == nil; time.Sleep(pause) {
		w, err := c.maps.Watch(ctx, metav1.ListOptions{ResourceVersion: revision, AllowWatchBookmarks: true})
		if err == nil {
			revision, err = c.follow(w, revision)
		}
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			revision = c.relist(ctx, revision)
		}
	}
}

// follow reads events to their end, and returns the revision of the last one, and why the server ended the watch if it said so.
func (c *counter) follow(w watch.Interface, revision string) (string, error) {
	defer w.Stop()
	c.mu.Lock()
	c.count.opened++
	c.mu.Unlock()
	for e := range w.ResultChan() {
		m, is := e.Object.(*corev1.ConfigMap)
		if !is {
			return revision, apierrors.FromObject(e.Object)
		}
		revision = m.ResourceVersion
		if e.Type == watch.Added {
			c.mu.Lock()
			c.seen[m.Name]++
			c.mu.Unlock()
		}
	}
	return revision, nil
}

// relist sees the objects that have appeared since it last saw all, and returns the revision from which to watch.
func (c *counter) relist(ctx context.Context, revision string) string {
	list, err := c.maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return revision // the next watch tells that it is too old
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count.relisted++
	for _, m := range list.Items {
		if c.seen[m.Name] == 0 {
			c.seen[m.Name] = 1
		}
	}
	return list.ResourceVersion
}

// finish stops the clients, the watch when it has seen what was created, and says what is lost.
func (c *counter) finish(ctx context.Context) (count, error) {
	c.stopClients()
	c.clients.Wait()
	list, err := c.maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		c.stopWatching()
		return c.count, err
	}
	// What the watch has not seen by then it has lost.
	_ = machine.Eventually(ctx, 20*time.Second, "the watch sees all", func(context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.lost(list.Items)
	})
	c.stopWatching()
	c.watcher.Wait()
	c.count.acknowledged = c.count.writes.good + c.updated
	return c.count, errors.Join(append(c.faults, c.lost(list.Items))...)
}

// lost says which confirmed writes are not there, and which objects the watch has not seen appear, or has seen twice.
func (c *counter) lost(found []corev1.ConfigMap) error {
	var faults []error
	values := map[string]string{}
	for _, m := range found {
		values[m.Name] = m.Data["value"]
	}
	if got, _ := strconv.Atoi(values["value"]); got < c.value || got > c.tried {
		faults = append(faults, fmt.Errorf("the value is %d, %d was confirmed, of %d sent", got, c.value, c.tried))
	}
	for _, name := range c.created {
		if values[name] == "" {
			faults = append(faults, fmt.Errorf("%s was confirmed and is not there", name))
		}
	}
	for name := range values {
		if times := c.seen[name]; times != 1 && strings.HasPrefix(name, createdPrefix) {
			faults = append(faults, fmt.Errorf("the watch saw %s appear %d times", name, times))
		}
	}
	slices.SortFunc(faults, func(a, b error) int { return len(a.Error()) - len(b.Error()) })
	if len(faults) > 5 {
		faults = append(faults[:5], fmt.Errorf("and %d more", len(faults)-5))
	}
	return errors.Join(faults...)
}
