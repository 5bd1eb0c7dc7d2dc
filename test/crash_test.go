package test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	crashes      = 20
	crashWriters = 6
	crashObjects = 40 // of each writer
)

// TestKilledUnderLoad kills the server at random moments while several writers
// write, with every write synced to disk. What was acknowledged must be there
// after the next start, at the revision that the acknowledgement told.
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	var last time.Duration
	acknowledged := map[string]*ack{}
	writes, slowest := 0, time.Duration(0)
	for crash := range crashes + 1 {
		k := serve(t, dir, noRootCA)
		slowest = max(slowest, k.started)
		last = k.started
		client := k.client()
		if crash == 0 {
			if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace("load"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		checkAcknowledged(t, client, acknowledged)
		if crash == crashes || t.Failed() {
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan map[string]*ack, crashWriters)
		var wg sync.WaitGroup
		for w := range crashWriters {
			r := rand.New(rand.NewPCG(seed, uint64(crash*crashWriters+w+1)))
			mine := map[string]*ack{}
			for n := range crashObjects {
				name := fmt.Sprintf("w%d-%d", w, n)
				if a := acknowledged[name]; a != nil {
					mine[name] = a
				}
			}
			wg.Go(func() { results <- load(ctx, client, r, w, mine) })
		}
		select { // the random moment
		case <-time.After(time.Duration(50+random.IntN(300)) * time.Millisecond):
		case <-k.done:
			t.Errorf("the server ended by itself: %s", k.stderr.String())
		}
		k.kill()
		cancel()
		wg.Wait()
		close(results)
		for mine := range results {
			maps.Copy(acknowledged, mine)
		}
		writes = 0
		for _, a := range acknowledged {
			writes += a.writes
		}
	}
	t.Logf("%d acknowledged writes; the slowest of %d starts took %v, the last %v", writes, crashes+1, slowest, last)
	if writes < crashes*10 {
		t.Errorf("only %d writes: this proves little", writes)
	}
}

// ack is what the server said last about an object, and what was asked of it
// since without an answer.
type ack struct {
	version uint64 // 0: it is not there
	value   string
	writes  int
	// An unanswered request: it was carried out or it was not.
	unanswered bool
	asked      string // the value; "" deletes
}

// load writes to its own objects until the server is gone.
func load(ctx context.Context, client kubernetes.Interface, r *rand.Rand, w int, mine map[string]*ack) map[string]*ack {
	c := client.CoreV1().ConfigMaps("load")
	for {
		name := fmt.Sprintf("w%d-%d", w, r.IntN(crashObjects))
		a := mine[name]
		if a == nil {
			a = &ack{}
			mine[name] = a
		}
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": fmt.Sprint(r.Uint64())}}
		a.unanswered, a.asked = true, obj.Data["value"]
		var got *corev1.ConfigMap
		var err error
		switch {
		case a.version == 0:
			got, err = c.Create(ctx, obj, metav1.CreateOptions{})
		case r.IntN(5) == 0:
			a.asked = ""
			err = c.Delete(ctx, name, metav1.DeleteOptions{})
		default:
			obj.ResourceVersion = fmt.Sprint(a.version)
			got, err = c.Update(ctx, obj, metav1.UpdateOptions{})
		}
		if err != nil {
			return mine
		}
		a.unanswered = false
		a.writes++
		if a.value, a.version = a.asked, 0; got != nil && a.value != "" {
			a.version = version(got)
		}
	}
}

// checkAcknowledged holds what is there against what was acknowledged, and
// settles what was left unanswered.
func checkAcknowledged(t *testing.T, client kubernetes.Interface, acknowledged map[string]*ack) {
	t.Helper()
	list, err := client.CoreV1().ConfigMaps("load").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]*corev1.ConfigMap{}
	for n := range list.Items {
		there[list.Items[n].Name] = &list.Items[n]
		if acknowledged[list.Items[n].Name] == nil {
			t.Errorf("%s is there, which nobody asked for", list.Items[n].Name)
		}
	}
	for name, a := range acknowledged {
		var is ack
		if obj := there[name]; obj != nil {
			is = ack{version: version(obj), value: obj.Data["value"]}
		}
		kept := is.version == a.version && is.value == a.value
		done := a.unanswered && is.value == a.asked && (is.version > a.version || is.version == 0)
		if !kept && !done {
			t.Errorf("%s: %+v is there, %+v was acknowledged", name, is, *a)
		}
		// Another way to ask must give the same answer.
		if got, err := client.CoreV1().ConfigMaps("load").Get(t.Context(), name, metav1.GetOptions{}); err == nil && version(got) != is.version || err != nil && (is.version != 0 || !apierrors.IsNotFound(err)) {
			t.Errorf("get %s: %v, a list has it at %d", name, err, is.version)
		}
		a.version, a.value, a.unanswered = is.version, is.value, false
	}
}
