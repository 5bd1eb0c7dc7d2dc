package test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/test/peer"
)

var (
	racesSteps = flag.Int("races.steps", 150, "requests of each of the clients that race")
	racesSeed  = flag.Uint64("races.seed", 0, "seed of the requests that race; 0: another one each time")
	racesPeer  = flag.Bool("races.peer", false, "ask kube-apiserver instead")
)

// TestDeleteRaces has clients delete, evict, bind, patch, update and make the same few pods at the same time, in every way that there
// is, and some do not wait for the answer. Whatever comes first, no answer may be an error of the server, and in the end all pods
// can be deleted.
func TestDeleteRaces(t *testing.T) {
	t.Parallel()
	var config *rest.Config
	if *racesPeer {
		config = peer.Start(t, "--disable-admission-plugins=ServiceAccount")
	} else {
		config = serve(t, t.TempDir(), "--disable-admission-plugins=ServiceAccount").config()
	}
	seed := *racesSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	r := newRaces(t, config)
	var wg sync.WaitGroup
	for n := range 12 {
		wg.Go(func() { r.client(rand.New(rand.NewPCG(seed, uint64(n))), *racesSteps) })
	}
	wg.Wait()
	if t.Failed() {
		t.Logf("-races.seed=%d", seed)
	}
	r.mu.Lock()
	t.Log(r.codes)
	r.mu.Unlock()
	r.clear()
}

// races are the clients of some pods.
type races struct {
	t testing.TB
	k *kubernetes.Clientset

	mu    sync.Mutex
	codes map[string]int // answers, by what was asked
}

const racingPods = 5

func newRaces(t testing.TB, config *rest.Config) *races {
	t.Helper()
	k, err := kubernetes.NewForConfig(config)
	must(t, err)
	r := &races{t: t, k: k, codes: map[string]int{}}
	_, err = k.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, metav1.CreateOptions{})
	must(t, err)
	none := intstr.FromInt32(0)
	budget, err := k.PolicyV1().PodDisruptionBudgets("default").Create(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "budget"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &none, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"budget": "yes"}}}}, metav1.CreateOptions{})
	must(t, err)
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, DisruptionsAllowed: 1000}
	_, err = k.PolicyV1().PodDisruptionBudgets("default").UpdateStatus(t.Context(), budget, metav1.UpdateOptions{})
	must(t, err)
	return r
}

// client makes some requests, one after the other.
func (r *races) client(rnd *rand.Rand, steps int) {
	for range steps {
		r.step(rnd, fmt.Sprintf("pod-%d", rnd.IntN(racingPods)))
	}
}

// pick returns one of some values.
func pick[T any](rnd *rand.Rand, of ...T) T { return of[rnd.IntN(len(of))] }

func (r *races) step(rnd *rand.Rand, name string) {
	pods := r.k.CoreV1().RESTClient()
	at := func(req *rest.Request) *rest.Request { return req.Namespace("default").Resource("pods") }
	one := func(req *rest.Request) *rest.Request { return at(req).Name(name) }
	switch rnd.IntN(16) {
	case 0, 1, 2, 3:
		r.ask(rnd, "create", at(pods.Post()).Body(racingPod(rnd, name)))
	case 4, 5, 6:
		r.ask(rnd, "delete", one(pods.Delete()).Body(r.deleteOptions(rnd, name)))
	case 7:
		r.ask(rnd, "deletecollection", at(pods.Delete()).Param("labelSelector", pick(rnd, "budget=yes", "app=x", "")).Body(r.deleteOptions(rnd, "")))
	case 8:
		o := r.deleteOptions(rnd, name)
		o.TypeMeta = metav1.TypeMeta{}
		r.ask(rnd, "evict", one(pods.Post()).SubResource("eviction").Body(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}, DeleteOptions: o}))
	case 9:
		r.ask(rnd, "bind", one(pods.Post()).SubResource("binding").Body(&corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node"}}))
	case 10, 11:
		phase := pick(rnd, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed, corev1.PodPending)
		r.ask(rnd, "patch status", one(pods.Patch(pick(rnd, types.StrategicMergePatchType, types.MergePatchType))).SubResource("status").Body(
			fmt.Appendf(nil, `{"status":{"phase":%q,"conditions":[{"type":"Ready","status":%q}]}}`, phase, pick(rnd, "True", "False"))))
	case 12:
		r.ask(rnd, "patch", one(pods.Patch(types.MergePatchType)).Body(
			fmt.Appendf(nil, `{"metadata":{"labels":{"round":"%d"},"finalizers":%s}}`, rnd.IntN(10), pick(rnd, `null`, `null`, `["example.com/a"]`, `["example.com/a","example.com/b"]`))))
	case 13:
		r.ask(rnd, "apply", one(pods.Patch(types.ApplyYAMLPatchType)).Param("fieldManager", "races").Param("force", "true").Body(
			fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"labels":{"app":"x","applied":"%d"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`, name, rnd.IntN(10))))
	case 14:
		if p, err := r.k.CoreV1().Pods("default").Get(r.t.Context(), name, metav1.GetOptions{}); err == nil {
			p.Labels["updated"], p.Finalizers = fmt.Sprint(rnd.IntN(10)), pick(rnd, nil, p.Finalizers)
			p.ResourceVersion = pick(rnd, p.ResourceVersion, "")
			p.UID = pick(rnd, p.UID, "")
			r.ask(rnd, "update", one(pods.Put()).Body(p))
		}
	case 15:
		r.ask(rnd, "get", one(pods.Get()))
		r.ask(rnd, "list", at(pods.Get()).Param("resourceVersion", pick(rnd, "", "0")))
	}
}

func racingPod(rnd *rand.Rand, name string) *corev1.Pod {
	grace := pick(rnd, int64(0), 1, 30)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": "x", "budget": pick(rnd, "yes", "no")}},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: &grace, NodeName: pick(rnd, "", "node"), Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	p.Finalizers = pick(rnd, nil, nil, []string{"example.com/a"}, []string{"example.com/a", "example.com/b"}, []string{metav1.FinalizerDeleteDependents})
	if rnd.IntN(4) == 0 {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "none", UID: "none"}}
	}
	return p
}

// deleteOptions are any that there are. Without a name they are for several pods.
func (r *races) deleteOptions(rnd *rand.Rand, name string) *metav1.DeleteOptions {
	o := &metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}}
	if g := pick(rnd, int64(-2), 0, 0, 1, 30, -1); g != -2 {
		o.GracePeriodSeconds = &g
	}
	if p := pick(rnd, "", "", metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan); p != "" {
		o.PropagationPolicy = &p
	}
	o.DryRun = pick(rnd, nil, nil, nil, nil, []string{metav1.DryRunAll})
	if name == "" || rnd.IntN(3) > 0 {
		return o
	}
	p, err := r.k.CoreV1().Pods("default").Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return o
	}
	o.Preconditions = &metav1.Preconditions{}
	if rnd.IntN(2) == 0 {
		o.Preconditions.UID = &p.UID
	} else {
		o.Preconditions.ResourceVersion = &p.ResourceVersion
	}
	return o
}

// ask makes a request, whose answer must not be an error of the server. Some clients do not wait for it.
func (r *races) ask(rnd *rand.Rand, what string, req *rest.Request) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	if rnd.IntN(20) == 0 {
		defer time.AfterFunc(time.Duration(rnd.IntN(3000))*time.Microsecond, cancel).Stop()
	}
	code := 0
	res := req.MaxRetries(0).Do(ctx).StatusCode(&code)
	body, err := res.Raw()
	gone := ctx.Err() != nil && r.t.Context().Err() == nil
	if !gone && (code == 0 || code >= http.StatusInternalServerError) {
		r.t.Errorf("%s: %d %v %s", what, code, err, body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var st apierrors.APIStatus
	reason := ""
	if errors.As(err, &st) {
		reason = " " + string(st.Status().Reason)
	}
	r.codes[fmt.Sprintf("%s %d%s", what, code, reason)]++
}

// clear deletes all pods, which must be possible.
func (r *races) clear() {
	r.t.Helper()
	within(r.t, 2*time.Minute, "all pods are gone", func(ctx context.Context) bool {
		list, err := r.k.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		must(r.t, err)
		for _, p := range list.Items {
			free, _ := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID, "finalizers": nil}})
			if _, err := r.k.CoreV1().Pods("default").Patch(ctx, p.Name, types.MergePatchType, free, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				r.t.Fatal(err)
			}
			if err := r.k.CoreV1().Pods("default").Delete(ctx, p.Name, *metav1.NewDeleteOptions(0)); err != nil && !apierrors.IsNotFound(err) {
				r.t.Fatal(err)
			}
		}
		return len(list.Items) == 0
	})
	text, err := r.k.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(r.t.Context())
	must(r.t, err)
	for line := range strings.Lines(string(text)) {
		f := requestTotal.FindStringSubmatch(strings.TrimSpace(line))
		if f == nil || labelsOf(f[1])["resource"] != "pods" {
			continue
		}
		// A request that was given up counts as one that took too long.
		if code := labelsOf(f[1])["code"]; strings.HasPrefix(code, "5") && code != strconv.Itoa(http.StatusGatewayTimeout) {
			r.t.Errorf("the server counts %s", line)
		}
	}
}
