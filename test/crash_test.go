package test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

var (
	crashes   = flag.Int("crashes", 10, "how often the servers of TestKilledUnderLoad are killed, each")
	crashBusy = flag.Int("crashes.busy", 0, "processes that compute beside them meanwhile")
)

const (
	crashWriters = 6
	crashObjects = 40 // of each writer
)

// TestKilledUnderLoad kills the server at random moments, of its start too, while several writers write, with every write synced to
// disk. It must start again each time, and what was acknowledged must be there, at the revision that the acknowledgement told.
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel()
	for range *crashBusy {
		start(t, "sh", "-c", "while :; do :; done")
	}
	sealed := filepath.Join(t.TempDir(), "encryption.yaml")
	must(t, os.WriteFile(sealed, fmt.Appendf(nil, `kind: EncryptionConfiguration
apiVersion: apiserver.config.k8s.io/v1
resources:
- {resources: ['*.*'], providers: [{secretbox: {keys: [%s]}}]}
`, encryptionKey("box")), 0o600))
	for name, args := range map[string][]string{"plain": nil, "encrypted": {"--encryption-provider-config=" + sealed}, "pebble": {"--engine=pebble"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killUnderLoad(t, args)
		})
	}
}

func killUnderLoad(t *testing.T, args []string) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := &storm{t: t, random: rand.New(rand.NewPCG(seed, 0)), dir: t.TempDir(), args: append(args, noRootCA), acknowledged: map[string]*ack{}}
	for round := range *crashes {
		client, k := s.start()
		if round == 0 {
			if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace("load"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		checkAcknowledged(t, client, s.acknowledged)
		s.loadAndKill(client, k, func(w int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(round*crashWriters+w+1))) })
	}
	client, k := s.start()
	checkAcknowledged(t, client, s.acknowledged)
	writes := 0
	for _, a := range s.acknowledged {
		writes += a.writes
	}
	t.Logf("%d acknowledged writes; %d kills and %d ends in order under load, %d kills of a start; the slowest start took %v, the last %v",
		writes, s.kills, s.ends, s.early, s.slowest, k.started)
	if writes < *crashes {
		t.Errorf("only %d writes: this proves little", writes)
	}
}

// storm is a data directory on which one server after the other lives.
type storm struct {
	t                  *testing.T
	random             *rand.Rand
	dir                string
	args               []string
	acknowledged       map[string]*ack
	kills, ends, early int
	slowest            time.Duration
}

// start starts the server and waits until it is ready. One that does not start fails the test, which goes on if the next one does.
func (s *storm) start() (kubernetes.Interface, *kanzen) {
	s.t.Helper()
	for range 5 {
		k, err := tryServe(s.t, s.dir, s.args...)
		if err != nil {
			s.t.Errorf("after %d kills, %d ends in order and %d kills of a start: %v", s.kills, s.ends, s.early, err)
			continue
		}
		s.slowest = max(s.slowest, k.started)
		client := k.client()
		within(s.t, time.Minute, "it is ready", func(ctx context.Context) bool {
			_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
			return err == nil
		})
		return client, k
	}
	s.t.Fatal("it does not start any more")
	panic("unreachable")
}

// loadAndKill lets writers write until the server ends, and now and then kills the start after that.
func (s *storm) loadAndKill(client kubernetes.Interface, k *kanzen, random func(writer int) *rand.Rand) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	results := make(chan map[string]*ack, crashWriters)
	var wg sync.WaitGroup
	for w := range crashWriters {
		mine := map[string]*ack{}
		for n := range crashObjects {
			name := fmt.Sprintf("w%d-%d", w, n)
			if a := s.acknowledged[name]; a != nil {
				mine[name] = a
			}
		}
		wg.Go(func() { results <- load(ctx, client, random(w), w, mine) })
	}
	select { // the random moment
	case <-time.After(time.Duration(50+s.random.IntN(300)) * time.Millisecond):
	case <-k.done:
		s.t.Errorf("the server ended by itself: %s", k.stderr.String())
	}
	if s.random.IntN(6) == 0 {
		s.ends++
		if code, _ := k.end(syscall.SIGTERM); code != 0 {
			s.t.Errorf("ended in order with code %d: %s", code, k.stderr.String())
		}
	} else {
		s.kills++
		k.kill()
	}
	cancel()
	wg.Wait()
	close(results)
	for mine := range results {
		maps.Copy(s.acknowledged, mine)
	}
	for s.random.IntN(3) == 0 {
		s.early++
		p := start(s.t, k.cmd.Path, k.cmd.Args[1:]...)
		time.Sleep(time.Duration(s.random.IntN(400)) * time.Millisecond)
		p.kill()
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
