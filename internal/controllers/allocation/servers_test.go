package allocation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// holders are the owners of addresses and ports, as clients see them.
type holders struct {
	t     *testing.T
	mu    sync.Mutex
	of    map[string]string // by address or port
	taken int
}

func used(s *corev1.Service) []string {
	out := slices.Clone(s.Spec.ClusterIPs)
	for _, p := range nodePorts(s) {
		out = append(out, fmt.Sprint(p))
	}
	return out
}

func (h *holders) take(s *corev1.Service) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, what := range used(s) {
		if other, ok := h.of[what]; ok {
			h.t.Errorf("%s was given to %s while %s had it", what, s.Name, other)
		}
		h.of[what] = s.Name
		h.taken++
	}
}

func (h *holders) give(s *corev1.Service) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, what := range used(s) {
		delete(h.of, what)
	}
}

// TestNothingTwice runs clients of two servers on one etcd, which create and delete services in ranges that are too
// small for all of them.
func TestNothingTwice(t *testing.T) {
	t.Run("alone", func(t *testing.T) {
		for _, s := range makeAndDelete(t, false) {
			if a, p := s.allocated(), s.allocatedPorts(); len(a) > 0 || len(p) > 0 {
				t.Errorf("left behind: %v, %v", a, p)
			}
		}
	})
	t.Run("under repair", func(t *testing.T) { makeAndDelete(t, true) })
}

func makeAndDelete(t *testing.T, repair bool) []*server {
	const clients, turns = 12, 25
	c := newCluster(t)
	servers := []*server{c.server(t, 1, 30000, 30039), c.server(t, 2, 30000, 30039)}
	servers[0].cidr("kubernetes", "10.0.0.0/27", "fd00::/112")
	h := &holders{t: t, of: map[string]string{}}
	var wg sync.WaitGroup
	for client := range clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r := rand.New(rand.NewPCG(uint64(client), 7))
			var mine []*corev1.Service
			end := func() {
				s := mine[0]
				mine = mine[1:]
				h.give(s)
				if err := servers[r.IntN(2)].Delete(t.Context(), services, request.Named(s.Namespace, s.Name), nil); err != nil {
					t.Errorf("delete %s: %v", s.Name, err)
				}
			}
			for turn := range turns {
				policy := corev1.IPFamilyPolicyPreferDualStack
				s := &corev1.Service{
					// Some names belong to other clients' services.
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("s-%d-%d", (client+r.IntN(2))%clients, turn)},
					Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, IPFamilyPolicy: &policy,
						Ports: []corev1.ServicePort{{Name: "a", Port: 80}, {Name: "b", Port: 81}}},
				}
				if r.IntN(3) == 0 {
					s.Spec.ClusterIP = fmt.Sprintf("10.0.0.%d", 1+r.IntN(20))
					s.Spec.Ports[1].NodePort = 30000 + r.Int32N(20)
				}
				made, err := servers[r.IntN(2)].client.Create(t.Context(), inprocess.Target{Resource: services.WithVersion("v1"), Namespace: s.Namespace}, s)
				switch {
				case err == nil:
					h.take(made.(*corev1.Service))
					mine = append(mine, made.(*corev1.Service))
				case !apierrors.IsInvalid(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsInternalError(err):
					t.Errorf("create %s: %v", s.Name, err)
				}
				if len(mine) > 2 || err != nil && len(mine) > 0 {
					end()
				}
			}
			for len(mine) > 0 {
				end()
			}
		}()
	}
	if repair {
		for _, s := range servers {
			// Few enough that a port in progress is not released.
			for range passes - 1 {
				s.repairOnce()
			}
		}
	}
	wg.Wait()
	if h.taken < clients*turns {
		t.Errorf("only %d addresses and ports were given out", h.taken)
	}
	return servers
}
