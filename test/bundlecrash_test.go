package test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

var bundleKills = flag.Int("bundle.kills", 5, "how often each server of TestBundlesLinearizable is killed")

const (
	bundleClients = 4
	bundleKeys    = 5
)

// bundleState is the values of some configmaps; empty: it is not there.
type bundleState [bundleKeys]string

// bundleOp is a read of all configmaps, or a write of some of them: of several in a bundle, of one by itself.
type bundleOp struct {
	read   bool
	writes map[int]string // values; empty: it is deleted
}

// How a bundleOp ended.
const (
	opDone    = "done"
	opRefused = "refused" // something to be deleted was not there
	opMoved   = "moved"   // others have written what it was about: it was not done
	opUnknown = "unknown" // the server was killed
)

type bundleResult struct {
	outcome string
	saw     bundleState // of a read
}

// after returns the states that there can be after an operation.
func (op bundleOp) after(s bundleState, r bundleResult) []bundleState {
	if op.read {
		if r.outcome == opUnknown || r.saw == s {
			return []bundleState{s}
		}
		return nil
	}
	fits, next := true, s
	for key, value := range op.writes {
		fits = fits && (value != "" || s[key] != "")
		next[key] = value
	}
	switch {
	case r.outcome == opDone && fits:
		return []bundleState{next}
	case r.outcome == opMoved, r.outcome == opRefused && !fits, r.outcome == opUnknown && !fits:
		return []bundleState{s}
	case r.outcome == opUnknown:
		return []bundleState{s, next}
	}
	return nil
}

var bundleModel = porcupine.NondeterministicModel{
	Init: func() []any { return []any{bundleState{}} },
	Step: func(state, input, output any) (all []any) {
		for _, s := range input.(bundleOp).after(state.(bundleState), output.(bundleResult)) {
			all = append(all, s)
		}
		return all
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// bundleHistory is what clients did and saw.
type bundleHistory struct {
	began  time.Time
	values atomic.Int64
	mu     sync.Mutex
	ops    []porcupine.Operation // guarded by mu
	counts map[string]int        // guarded by mu
}

// run lets a client do an operation, and returns whether there is an answer. What a killed server has not answered may have been done,
// but not after its end.
func (h *bundleHistory) run(client int, op bundleOp, ended <-chan struct{}, do func() bundleResult) bool {
	call := time.Since(h.began)
	r := do()
	if r.outcome == opUnknown {
		<-ended
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	kind := map[bool]string{true: "read", false: fmt.Sprintf("write of %d", len(op.writes))}[op.read]
	h.counts[kind+" "+r.outcome]++
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: op, Output: r, Call: int64(call), Return: int64(time.Since(h.began))})
	return r.outcome != opUnknown
}

// TestBundlesLinearizable has clients write bundles and single objects, and read, while the server is killed at random: what they see is
// possible only if each bundle is written whole, or not at all, at one moment.
func TestBundlesLinearizable(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"etcd", "pebble"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			bundlesLinearizable(t, engine)
		})
	}
}

func bundlesLinearizable(t *testing.T, engine string) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	h := &bundleHistory{began: time.Now(), counts: map[string]int{}}
	s := &storm{t: t, random: r, dir: t.TempDir(), args: []string{noRootCA, "--engine=" + engine}}
	for round := range *bundleKills + 1 {
		client, k := s.start()
		if round == 0 {
			_, err := client.CoreV1().Namespaces().Create(t.Context(), namespace("bundles"), metav1.CreateOptions{})
			must(t, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		c := bundleClient{ctx, k.client()}
		h.run(bundleClients, bundleOp{read: true}, k.done, c.read)
		var clients sync.WaitGroup
		for n := range bundleClients {
			random := rand.New(rand.NewPCG(seed, uint64(round*bundleClients+n+2)))
			clients.Go(func() {
				for {
					op := h.random(random)
					if !h.run(n, op, k.done, func() bundleResult { return c.do(op) }) {
						return
					}
				}
			})
		}
		time.Sleep(time.Duration(100+r.IntN(700)) * time.Millisecond)
		k.kill()
		clients.Wait()
		cancel()
	}
	t.Logf("seed %d, %d kills: %v", seed, *bundleKills+1, h.counts)
	model := bundleModel.ToModel()
	switch porcupine.CheckOperationsTimeout(model, h.ops, 5*time.Minute) {
	case porcupine.Illegal:
		slices.SortFunc(h.ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		for _, op := range h.ops {
			t.Logf("%8.3f–%8.3f %d %s", float64(op.Call)/1e9, float64(op.Return)/1e9, op.ClientId, model.DescribeOperation(op.Input, op.Output))
		}
		t.Error("there is no order in which this can have happened")
	case porcupine.Unknown:
		t.Error("the history was too long to be checked")
	}
	if h.counts["write of 3 done"] == 0 || h.counts["write of 1 done"] < *bundleKills {
		t.Error("too little was written: this proves little")
	}
}

// random makes an operation.
func (h *bundleHistory) random(r *rand.Rand) bundleOp {
	op := bundleOp{writes: map[int]string{}}
	n := []int{0, 1, 1, 2, 3, 3}[r.IntN(6)]
	if n == 0 {
		return bundleOp{read: true}
	}
	for _, key := range r.Perm(bundleKeys)[:n] {
		op.writes[key] = fmt.Sprint("v", h.values.Add(1))
		if n > 1 && r.IntN(5) == 0 {
			op.writes[key] = ""
		}
	}
	return op
}

// bundleClient carries out operations.
type bundleClient struct {
	ctx    context.Context
	client kubernetes.Interface
}

func (c bundleClient) do(op bundleOp) bundleResult {
	if op.read {
		return c.read()
	}
	object := func(key int, value string) map[string]any {
		o := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprint("k", key), "namespace": "bundles"}}
		if value != "" {
			o["data"] = map[string]string{"v": value}
		}
		return o
	}
	var err error
	items := []any{}
	for key, value := range op.writes {
		if len(op.writes) == 1 {
			body, _ := json.Marshal(object(key, value))
			force := true
			_, err = c.client.CoreV1().ConfigMaps("bundles").Patch(c.ctx, fmt.Sprint("k", key), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "bundle", Force: &force})
			break
		}
		verb := "apply"
		if value == "" {
			verb = "delete"
		}
		items = append(items, map[string]any{"verb": verb, "force": true, "object": object(key, value)})
	}
	if len(op.writes) > 1 {
		body, _ := json.Marshal(map[string]any{"apiVersion": "bundle.kanzen.io/v1", "kind": "Bundle", "spec": map[string]any{"items": items}})
		_, err = c.client.Discovery().RESTClient().Post().AbsPath("/apis/bundle.kanzen.io/v1/bundles").
			SetHeader("Content-Type", "application/json").Body(body).DoRaw(c.ctx)
	}
	switch {
	case err == nil:
		return bundleResult{outcome: opDone}
	case apierrors.IsNotFound(err):
		return bundleResult{outcome: opRefused}
	case apierrors.IsConflict(err):
		return bundleResult{outcome: opMoved}
	}
	return bundleResult{outcome: opUnknown}
}

func (c bundleClient) read() bundleResult {
	list, err := c.client.CoreV1().ConfigMaps("bundles").List(c.ctx, metav1.ListOptions{})
	if err != nil {
		return bundleResult{outcome: opUnknown}
	}
	r := bundleResult{outcome: opDone}
	for _, m := range list.Items {
		var key int
		if _, err := fmt.Sscanf(m.Name, "k%d", &key); err == nil && key < bundleKeys {
			r.saw[key] = m.Data["v"]
		}
	}
	return r
}
