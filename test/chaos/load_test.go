package chaos

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	registers = 8 // objects that the workers of one load read and write
	workers   = 9 // a third of them at each server
	patience  = 5 * time.Second
)

// operation is one request and its answer.
type operation struct {
	object     string
	worker     int
	call, done time.Duration // since the start
	// A write replaces the value before, by resourceVersion, with value. A read has seen value.
	write         bool
	before, value string
	outcome       outcome
	version       uint64 // of an acknowledged write
}

type outcome int

const (
	succeeded outcome = iota
	conflicted
	unknown // there was no answer, or an error that leaves it open
)

// load is what workers do, and what came of it.
type load struct {
	began   time.Time
	clients [members]*kubernetes.Clientset
	objects int           // how many the workers read and write
	slow    time.Duration // the longest pause between two requests of a worker
	era     atomic.Int64  // the objects in use: a history of few operations on each is judged soon

	mu         sync.Mutex
	operations []operation
}

func (l *load) name(n int) string { return registerName(l.era.Load(), n) }

// prepare creates the objects.
func (l *load) prepare(ctx context.Context) error {
	for n := range l.objects {
		_, err := l.clients[0].CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: l.name(n)},
			Data: map[string]string{"value": "initial"}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

// marker is the name of an object that the watches are to come to.
const marker = "marker"

// mark writes an object after everything else.
func (l *load) mark(ctx context.Context) error {
	_, err := l.clients[0].CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: marker}}, metav1.CreateOptions{})
	return err
}

// silence is the longest time from a write without an answer to the next answer.
func (l *load) silence() time.Duration {
	byEnd := slices.SortedFunc(slices.Values(l.operations), func(a, b operation) int { return cmp.Compare(a.done, b.done) })
	var longest time.Duration
	since := time.Duration(-1) // when a write was tried that had no answer
	for _, op := range byEnd {
		switch {
		case op.outcome != unknown && since >= 0:
			longest, since = max(longest, op.done-since), -1
		case op.outcome == unknown && since < 0:
			since = op.call
		}
	}
	return longest
}

// work reads and writes until ctx ends. The requests themselves are not cut off by it.
func (l *load) work(ctx context.Context, worker int, r *rand.Rand) {
	maps := l.clients[worker%members].CoreV1().ConfigMaps("default")
	known := map[string]*corev1.ConfigMap{} // what this worker saw last
	for n := 0; ctx.Err() == nil; n++ {
		object := l.name(r.IntN(l.objects))
		op := operation{object: object, worker: worker, write: known[object] != nil && r.IntN(3) > 0, call: time.Since(l.began)}
		request, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		var got *corev1.ConfigMap
		var err error
		if op.write {
			next := known[object].DeepCopy()
			op.before, op.value = next.Data["value"], fmt.Sprintf("%d-%d", worker, n)
			next.Data["value"] = op.value
			got, err = maps.Update(request, next, metav1.UpdateOptions{})
		} else {
			got, err = maps.Get(request, object, metav1.GetOptions{})
		}
		cancel()
		op.done = time.Since(l.began)
		switch {
		case err == nil:
			known[object] = got
			op.version, _ = strconv.ParseUint(got.ResourceVersion, 10, 64)
			if !op.write {
				op.value = got.Data["value"]
			}
		case apierrors.IsConflict(err):
			op.outcome = conflicted
			delete(known, object)
		default:
			op.outcome = unknown
			delete(known, object)
		}
		if op.write || op.outcome == succeeded { // a read without an answer says nothing
			l.mu.Lock()
			l.operations = append(l.operations, op)
			l.mu.Unlock()
		}
		if op.outcome == unknown {
			time.Sleep(50 * time.Millisecond) // a server that is gone refuses fast
		}
		time.Sleep(time.Duration(r.Int64N(int64(l.slow))))
	}
}
