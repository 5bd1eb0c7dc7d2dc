package test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// seenServices is what a watch through one server has told, in order.
type seenServices struct {
	mu     sync.Mutex
	events []string
	taken  map[string]string // addresses and ports in use, and by whom
	errs   []error
}

func (s *seenServices) follow(ctx context.Context, c *kubernetes.Clientset, from string) {
	w, err := c.CoreV1().Services("default").Watch(ctx, metav1.ListOptions{ResourceVersion: from})
	if err != nil {
		s.errs = append(s.errs, err)
		return
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		svc, ok := e.Object.(*corev1.Service)
		if ctx.Err() != nil {
			return
		}
		if !ok {
			s.mu.Lock()
			s.errs = append(s.errs, fmt.Errorf("%v", e))
			s.mu.Unlock()
			return
		}
		s.take(string(e.Type), svc)
	}
}

func (s *seenServices) take(event string, svc *corev1.Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, event+" "+svc.Name+" "+svc.ResourceVersion)
	for _, what := range []string{svc.Spec.ClusterIP, fmt.Sprint("port ", svc.Spec.Ports[0].NodePort)} {
		switch by, ok := s.taken[what]; {
		case event == "DELETED":
			delete(s.taken, what)
		case ok && by != svc.Name:
			s.errs = append(s.errs, fmt.Errorf("%s is given to %s and to %s", what, by, svc.Name))
		default:
			s.taken[what] = svc.Name
		}
	}
}

// TestAllocationUnderTwoServers has many clients of two servers create and delete services, with fewer addresses and ports than
// they ask for: none is given twice, what is given back can be used again, and both servers list and watch the same.
func TestAllocationUnderTwoServers(t *testing.T) {
	t.Parallel()
	const clients, attempts, ports = 24, 12, 40
	etcd, ctx := etcdServer(t), t.Context()
	var sides []*kubernetes.Clientset
	for _, name := range []string{"a", "b"} {
		k := serve(t, filepath.Join(t.TempDir(), name), "--etcd-servers="+etcd, "--controllers=", "--service-cluster-ip-range=10.9.0.0/26", fmt.Sprintf("--service-node-port-range=31000-%d", 31000+ports-1))
		sides = append(sides, k.client())
	}
	var seen [2]*seenServices
	var watches sync.WaitGroup
	watching, stop := context.WithCancel(ctx)
	defer stop()
	for n, side := range sides {
		l, err := side.CoreV1().Services("default").List(ctx, metav1.ListOptions{})
		must(t, err)
		seen[n] = &seenServices{taken: map[string]string{}}
		watches.Go(func() { seen[n].follow(watching, side, l.ResourceVersion) })
	}
	create := func(side *kubernetes.Clientset, name string) bool {
		_, err := side.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
		var status apierrors.APIStatus
		if err != nil && (!errors.As(err, &status) || !strings.Contains(err.Error(), "range is full")) {
			t.Errorf("%s: %v", name, err)
		}
		return err == nil
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	left, refused := 0, 0
	for c := range clients {
		wg.Go(func() {
			for a := range attempts {
				name := fmt.Sprintf("s-%d-%d", c, a)
				made := create(sides[(c+a)%2], name)
				gone := made && a%4 != 0
				if gone {
					if err := sides[(c+a+1)%2].CoreV1().Services("default").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
						t.Error(err)
					}
				}
				mu.Lock()
				switch {
				case !made:
					refused++
				case !gone:
					left++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	// The rest can be used to the last, through either.
	for n := 0; left < ports; n++ {
		if !create(sides[n%2], fmt.Sprint("last-", n)) {
			t.Fatalf("refused when %d of %d ports were in use", left, ports)
		}
		left++
	}
	if create(sides[0], "too-many") || create(sides[1], "too-many") {
		t.Error("more services than ports")
	}
	t.Logf("%d refused", refused)
	if refused == 0 {
		t.Error("the range was not put to the test")
	}
	a, err := sides[0].CoreV1().Services("default").List(ctx, metav1.ListOptions{})
	must(t, err)
	b, err := sides[1].CoreV1().Services("default").List(ctx, metav1.ListOptions{})
	must(t, err)
	if len(a.Items) != ports+1 || !equal(a.Items, b.Items) { // and "kubernetes"
		t.Errorf("%d and %d services", len(a.Items), len(b.Items))
	}
	within(t, 60*time.Second, "both watches have told the same", func(context.Context) bool {
		seen[0].mu.Lock()
		defer seen[0].mu.Unlock()
		seen[1].mu.Lock()
		defer seen[1].mu.Unlock()
		return len(seen[0].taken) == 2*ports && slices.Equal(seen[0].events, seen[1].events)
	})
	stop()
	watches.Wait()
	for n, s := range seen {
		for _, err := range s.errs {
			t.Errorf("server %d: %v", n, err)
		}
	}
}
